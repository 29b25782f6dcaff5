"""Statistics as files, and files as statistics."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Protocol, cast, get_args

import numpy as np
import polars as pl

from surerec._columns import Columns
from surerec._memory import available_memory
from surerec.errors import InputError
from surerec.interactions import IdMap, Interactions
from surerec.precedence import PrecedenceStatistics, Ties
from surerec.precedence._bounded import BoundedRows
from surerec.precedence._held import HeldRows
from surerec.precedence._rows import DenseRows, OnDemandRows
from surerec.precedence._spans import Spans
from surerec.storage._content import Content, array_content, table_content
from surerec.storage._layout import HELD_ROLES, check_array, check_offsets
from surerec.storage._manifest import Counts, DataCard, Manifest, Settings

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.precedence import Direction, RowStore

__all__ = ["Files", "check_indices", "contents", "describe", "statistics_from"]


_MOST_CACHE = 1 << 30  # bytes of counted rows that a loaded model keeps


class Files(Protocol):
    """Gives what the files of a model hold, by role."""

    def array(self, role: str) -> NDArray[Any]:
        """Give an array."""

    def table(self, role: str) -> pl.DataFrame:
        """Give a table."""


def describe(statistics: PrecedenceStatistics) -> tuple[DataCard | None, Counts, Settings]:
    """Say what the data are, how much they hold, and how the statistics were made."""
    match statistics.rows:
        case DenseRows():
            rows = "dense"
        case OnDemandRows() if statistics.interactions is not None:
            rows = "on-demand"
        case BoundedRows() if statistics.interactions is not None:
            rows = "bounded"
        case _:
            raise InputError(
                "Statistics without one of their users cannot be stored; store the whole ones, "
                "made by count_precedence or from given counts."
            )
    source = statistics.interactions
    data = None if source is None else DataCard(source.name, source.origin, source.rows_read)
    n_rows = None if source is None else source.n_rows
    counts = Counts(int(statistics.n_users), statistics.n_items, n_rows)
    return data, counts, Settings(statistics.ties, rows)


def contents(statistics: PrecedenceStatistics, counts: Counts) -> list[Content]:
    """Give the content of every file that the statistics need."""
    arrays = {"support": statistics.support} | _arrays_of_rows(statistics)
    tables: dict[str, dict[str, pl.Series]] = {}
    source = statistics.interactions
    if source is not None:
        arrays |= {
            "offsets": source.offsets,
            "items_taken": source.items_taken,
            "times": source.times,
        }
        titles = {} if source.titles is None else {Columns.Title: source.titles}
        tables["users"] = {Columns.User: _plain_ids(source.users)}
        tables["items"] = {Columns.Item: _plain_ids(source.items), **titles}
    try:
        for role, array in arrays.items():
            check_array(role, array, counts)
    except ValueError as error:
        raise InputError(f"These statistics cannot be stored: {error}.") from None
    return [array_content(role, array) for role, array in arrays.items()] + [
        table_content(role, columns) for role, columns in tables.items()
    ]


def statistics_from(files: Files, manifest: Manifest) -> PrecedenceStatistics:
    """Put statistics together from their files; ValueError if the manifest makes no sense."""
    source = None if manifest.data is None else _interactions(files, manifest.data)
    rows: RowStore
    if manifest.settings.rows in ("on-demand", "bounded") and source is not None:
        both = _spans(files, "following", source), _spans(files, "preceding", source)
        if manifest.settings.rows == "bounded":
            rows = BoundedRows(*both, _held(files), min(available_memory() // 4, _MOST_CACHE))
        else:
            rows = OnDemandRows(*both)
    else:
        rows = DenseRows(files.array("followers"), files.array("predecessors"))
    if manifest.settings.ties not in get_args(Ties):
        raise ValueError(manifest.settings.ties)
    return PrecedenceStatistics(
        manifest.counts.users,
        files.array("support"),
        rows,
        ties=cast("Ties", manifest.settings.ties),
        interactions=source,
    )


def check_indices(statistics: PrecedenceStatistics) -> None:
    """Raise ValueError if an index leads out of its array.

    A checksum tells damage, not intent, and kernels do not look where they write.
    """
    source = statistics.interactions
    if source is None:
        return
    check_offsets(source.offsets, source.n_rows)
    if source.n_rows and int(source.items_taken.max()) >= source.n_items:
        raise ValueError("items_taken has an item that is not there")
    for spans in _spans_of(statistics.rows):
        check_offsets(spans.offsets, len(spans.starts))
        if int(spans.stops.max(initial=0)) > source.n_rows:
            raise ValueError("a span leads outside")
    if isinstance(statistics.rows, BoundedRows):
        for held in statistics.rows.held.values():
            _check_held(held, source.n_items)


def _check_held(held: HeldRows, n_items: int) -> None:
    check_offsets(held.offsets, len(held.items))
    n_held = len(held.dense) + len(held.offsets) - 1
    if len(held.counts) != len(held.items) or int(held.slots.max(initial=-1)) >= n_held:
        raise ValueError("a held row is not there")
    if int(held.items.max(initial=0)) >= max(n_items, 1):
        raise ValueError("a held row has an item that is not there")


def _spans_of(rows: RowStore) -> tuple[Spans, ...]:
    match rows:
        case OnDemandRows():
            return rows.following, rows.preceding
        case BoundedRows():
            return rows.spans["followers"], rows.spans["predecessors"]
        case _:
            return ()


def _arrays_of_rows(statistics: PrecedenceStatistics) -> dict[str, NDArray[Any]]:
    rows = statistics.rows
    if both := _spans_of(rows):
        arrays = {
            f"{direction}_{part}": getattr(spans, part)
            for direction, spans in zip(("following", "preceding"), both, strict=True)
            for part in ("offsets", "starts", "stops")
        }
        if isinstance(rows, BoundedRows):
            arrays |= {
                role: getattr(rows.held[cast("Direction", direction)], part)
                for role, (direction, part) in HELD_ROLES.items()
            }
        return arrays
    none = np.empty(0, dtype=np.int64)
    return {
        "followers": rows.block("followers", none).matrix,
        "predecessors": rows.block("predecessors", none).matrix,
    }


def _plain_ids(ids: IdMap) -> pl.Series:
    if not ids.ids.dtype.is_integer() and ids.ids.dtype != pl.String:
        raise InputError(
            f"The {ids.noun}s' ids are of type {ids.ids.dtype}; integers and text can be stored."
        )
    return ids.ids


def _interactions(files: Files, data: DataCard) -> Interactions:
    items = files.table("items")
    interactions = Interactions(
        IdMap(files.table("users")[Columns.User], noun="user"),
        IdMap(items[Columns.Item], noun="item"),
        files.array("offsets"),
        files.array("items_taken"),
        files.array("times"),
        name=data.name,
        origin=data.origin,
        rows_read=data.rows_read,
    )
    if Columns.Title in items.columns:
        interactions.titles = items[Columns.Title]  # by code already: no need to match ids again
    return interactions


def _held(files: Files) -> dict[Direction, HeldRows]:
    directions: tuple[Direction, ...] = ("followers", "predecessors")
    return {
        direction: HeldRows(
            **{
                part: files.array(role)
                for role, (of, part) in HELD_ROLES.items()
                if of == direction
            }
        )
        for direction in directions
    }


def _spans(files: Files, direction: str, interactions: Interactions) -> Spans:
    return Spans(
        files.array(f"{direction}_offsets"),
        files.array(f"{direction}_starts"),
        files.array(f"{direction}_stops"),
        interactions.items_taken,
    )
