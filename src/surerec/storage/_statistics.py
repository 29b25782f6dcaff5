"""Statistics as files, and files as statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import polars as pl

from surerec._checks import check_profiles
from surerec._columns import Columns
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions
from surerec.precedence import PrecedenceStatistics, Ties, rows_from
from surerec.storage._files import ARRAYS, ROW_ROLES, Content, array_content, table_content
from surerec.storage._manifest import Counts, DataCard, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.storage._manifest import Manifest


class Files(Protocol):
    """Opens the files of a model, by role."""

    def array(self, role: str) -> NDArray[Any]:
        """Return an array."""

    def table(self, role: str) -> pl.DataFrame:
        """Return a table."""


def describe(statistics: PrecedenceStatistics) -> tuple[DataCard | None, Counts, Settings]:
    """Return what the data are, how much they hold, and how the statistics were made."""
    rows, source = statistics.rows.kind, statistics.interactions
    # What is not held is counted from the profiles, wherever the rows are loaded.
    if rows is None or (source is None and not statistics.rows.holds_all):
        raise InputError(
            "Statistics without one of their users cannot be stored; store the whole ones, "
            "made by count_precedence or from given counts."
        )
    data = None if source is None else DataCard(source.name, source.origin, source.rows_read)
    n_rows = None if source is None else source.n_rows
    counts = Counts(int(statistics.n_users), statistics.n_items, n_rows)
    return data, counts, Settings(statistics.ties, rows)


def contents(statistics: PrecedenceStatistics, counts: Counts) -> list[Content]:
    """Return the content of every file that the statistics need."""
    arrays = {"support": statistics.support} | statistics.rows.arrays()
    tables: dict[str, dict[str, pl.Series]] = {}
    source = statistics.interactions
    if source is not None:
        arrays |= {
            "offsets": source.offsets,
            "items_taken": source.items_taken,
            "times": source.times,
        }
        texts = {Columns.Title: source.titles, Columns.Genres: source.genres}
        known = {name: column for name, column in texts.items() if column is not None}
        tables["users"] = {Columns.User: _plain_ids(source.users)}
        tables["items"] = {Columns.Item: _plain_ids(source.items), **known}
    try:
        for role, array in arrays.items():
            ARRAYS[role].check(role, array, counts.sizes())
    except ValueError as error:
        raise InputError(f"These statistics cannot be stored: {error}.") from None
    return [array_content(role, array) for role, array in arrays.items()] + [
        table_content(role, columns) for role, columns in tables.items()
    ]


def statistics_from(files: Files, manifest: Manifest) -> PrecedenceStatistics:
    """Build statistics from their files; ValueError if they do not fit together.

    No index leads out of its array, whoever wrote the files: kernels do not look where they write.
    What the counts say is taken for granted.
    """
    source = None if manifest.data is None else _interactions(files, manifest.data)
    arrays = {role: files.array(role) for role in ROW_ROLES[manifest.settings.rows]}
    rows = rows_from(manifest.settings.rows, arrays, source)
    support, n_users = files.array("support"), manifest.counts.users
    if manifest.settings.ties not in get_args(Ties) or support.max(initial=0) > n_users:
        raise ValueError(manifest.settings.ties)
    return PrecedenceStatistics(
        n_users,
        support,
        rows,
        ties=cast("Ties", manifest.settings.ties),
        interactions=source,
    )


def _plain_ids(ids: IdMap) -> pl.Series:
    if not ids.ids.dtype.is_integer() and ids.ids.dtype != pl.String:
        raise InputError(
            f"The {ids.noun}s' ids are of type {ids.ids.dtype}; integers and text can be stored."
        )
    return ids.ids


def _interactions(files: Files, data: DataCard) -> Interactions:
    items = files.table("items")
    offsets, items_taken = files.array("offsets"), files.array("items_taken")
    check_profiles(offsets, items_taken, len(items))
    interactions = Interactions(
        IdMap(files.table("users")[Columns.User], noun="user"),
        IdMap(items[Columns.Item], noun="item"),
        offsets,
        items_taken,
        files.array("times"),
        name=data.name,
        origin=data.origin,
        rows_read=data.rows_read,
    )
    # By code already: no need to match ids again.
    if Columns.Title in items.columns:
        interactions.titles = items[Columns.Title]
    if Columns.Genres in items.columns:
        interactions.genres = items[Columns.Genres]
    return interactions
