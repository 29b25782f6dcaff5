"""Finding items by title, as people type it."""

from __future__ import annotations

import unicodedata
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

if TYPE_CHECKING:
    from numpy.typing import NDArray


def plain_text(text: str) -> str:
    """Give a text without case and accents.

    Examples
    --------
    >>> plain_text("Léon: The Professional")
    'leon: the professional'
    """
    apart = unicodedata.normalize("NFKD", text.casefold())
    return "".join(c for c in apart if not unicodedata.combining(c))


class TitleSearch:
    """Titles ready to be searched.

    Parameters
    ----------
    ids : polars.Series
        Item ids, by code.
    titles : polars.Series or None
        The title of each, null where there is none: such an item is found by its id.
    popularity : array of int
        The place of each in the order of popularity, 0 for the most taken.

    Examples
    --------
    >>> titles = pl.Series(["Alien", "Amélie", "Star Wars"])
    >>> search = TitleSearch(pl.Series([7, 3, 5]), titles, popularity=np.array([2, 1, 0]))
    >>> search.find("ame", 5), search.find("wars st", 5), search.find("", 2), search.find("a", 5)
    (array([1]), array([2]), array([2, 1]), array([1, 0, 2]))
    """

    def __init__(
        self, ids: pl.Series, titles: pl.Series | None, popularity: NDArray[np.int64]
    ) -> None:
        self._popularity = popularity
        self._by_popularity = np.argsort(popularity)
        shown = ids.cast(pl.String)
        if titles is not None:
            shown = titles.zip_with(titles.is_not_null(), shown)
        # A blank before each, so that " word" finds where a word begins.
        self._texts = pl.Series(["", *(f" {plain_text(t)}" for t in shown.to_list())])[1:]

    def find(self, query: str, limit: int) -> NDArray[np.int64]:
        """Give the codes of items whose title has all words; the likeliest, then popular, first.

        A title that begins with the query comes before one where words begin with the query's,
        and that before one that has them anywhere.
        """
        words = plain_text(query).split()
        if not words:
            return self._by_popularity[:limit]
        found = self._having(np.arange(len(self._texts)), words)
        texts = self._texts.gather(found)
        begins = texts.str.starts_with(" " + " ".join(words)).to_numpy()
        at_words = np.ones(len(found), dtype=bool)
        for word in words:
            at_words &= texts.str.contains(" " + word, literal=True).to_numpy()
        order = np.lexsort((self._popularity[found], ~at_words, ~begins))
        return found[order[:limit]]

    def _having(self, codes: NDArray[np.int64], words: list[str]) -> NDArray[np.int64]:
        """Narrow down word by word, the longest, which is the rarest, first."""
        for word in sorted(words, key=len, reverse=True):
            texts = self._texts.gather(codes)
            codes = codes[texts.str.contains(word, literal=True).to_numpy()]
        return codes
