"""Rows of user, item, time and sequence from a Spark DataFrame, as `read_interactions` reads them.

Written in Spark SQL, so that this module does not import pyspark.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from surerec._words import DAY
from surerec.errors import InputError
from surerec.interactions import RowsRead, find_columns

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS: Final = ("float", "double", "decimal")
_MICROSECONDS: Final = {"s": 1_000_000, "ms": 1_000, "us": 1, "ns": 0}
_UNIT_BOUNDS: Final = (("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", float("inf")))
_LATEST: Final = 2.0**63 - 1024
_WHERE: Final = "the Spark DataFrame"
_EPOCH: Final = "timestamp_ntz'1970-01-01 00:00:00'"


@dataclass(frozen=True)
class SparkRows:
    """Valid rows, and the counts of rows left out."""

    rows: DataFrame
    """Columns user, item, time and sequence."""
    n_rows: int
    rows_read: RowsRead


def read_source(
    frame: DataFrame,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    sequence: str | None = None,
    rating_above: float | None = 0.0,
    time_format: str | None = None,
    skip_bad: bool = False,
) -> SparkRows:
    """Find the columns, check all rows once, and return the valid ones."""
    requested = {"user": user or None, "item": item or None, "time": time, "rating": rating}
    columns = find_columns(frame.columns, requested, _WHERE)
    kinds = {name: kind.split("(")[0] for name, kind in frame.dtypes}
    if sequence is not None and (sequence not in kinds or kinds[sequence] not in _WHOLE):
        raise InputError(
            f"{_WHERE}: no integer column {sequence!r} for sequence= (--sequence); choose one of: "
            f"{', '.join(f'{name} {kind}' for name, kind in kinds.items())}."
        )
    if rating_above is None:
        columns.pop("rating", None)
    cells = frame.selectExpr(
        *(f"{_cell(role, name, kinds[name])} as {role}" for role, name in columns.items()),
        f"cast({_quoted(sequence)} as bigint) as sequence" if sequence else "0L as sequence",
    )
    known = " and ".join(f"{role} is not null" for role in columns)
    usable = (
        known if "rating" not in columns else f"{known} and rating > {float(rating_above or 0)!r}D"
    )
    is_number = not kinds[columns["time"]].startswith(("timestamp", "date"))
    found = _check_rows(cells, {role: kinds[name] for role, name in columns.items()}, known, usable)
    _refuse_bad(found, skip_bad=skip_bad)
    types = {
        role: "string" if kinds[columns[role]] == "string" and found[f"{role}_text"] else "bigint"
        for role in ("user", "item")
    }
    rows = cells.where(usable).selectExpr(
        *(f"cast({role} as {kind}) as {role}" for role, kind in types.items()),
        f"{_micros(cells, time_format) if is_number else 'time'} as time",
        "sequence",
    )
    left_out = found["all"] - found["bad"] - found["usable"]
    read = RowsRead(rows=found["all"], bad=found["bad"], below_threshold=left_out)
    return SparkRows(rows, found["usable"], read)


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _cell(role: str, name: str, kind: str) -> str:
    """Return the SQL expression of a cell; invalid values become null."""
    column = _quoted(name)
    number = f"try_cast({column} as double)"
    if role == "rating":
        return f"case when abs({number}) < double('Infinity') then {number} end"
    group = "whole" if kind in _WHOLE else "fraction" if kind in _FRACTIONS else kind
    text_time = f"case when {number} >= 0 and {number} < {_LATEST!r}D then {number} end"
    readings = {
        ("id", "whole"): f"cast({column} as bigint)",
        ("id", "fraction"): f"nullif({column}, double('NaN'))",
        ("id", "string"): f"nullif(trim({column}), '')",
        ("time", "timestamp"): f"unix_micros({column})",
        ("time", "timestamp_ntz"): f"timestampdiff(microsecond, {_EPOCH}, {column})",
        ("time", "date"): f"unix_date({column}) * {DAY}L",
        ("time", "whole"): f"case when {column} >= 0 then cast({column} as bigint) end",
        ("time", "fraction"): text_time,
        ("time", "string"): text_time,
    }
    found = readings.get(("time" if role == "time" else "id", group))
    if found is None:
        expected = "timestamps, dates or Unix times" if role == "time" else "integers or text"
        raise InputError(f"{_WHERE}: the {role} column is {kind}; convert it to {expected}.")
    return found


def _check_rows(cells: DataFrame, kinds: dict[str, str], known: str, usable: str) -> dict[str, Any]:
    """Count valid, invalid and textual values in one pass."""
    facts = {
        "`all`": "count(*)",
        "usable": f"count_if({usable})",
        "bad": f"count_if(not ({known}))",
        "no_sequence": "count_if(sequence is null)",
        **{f"no_{role}": f"count_if({role} is null)" for role in kinds},
    }
    for role in ("user", "item"):
        is_text = {
            "string": f"count_if({role} is not null and not {_is_plain_integer(role)})",
            **dict.fromkeys(_FRACTIONS, f"count_if({role} != round({role}))"),
        }.get(kinds[role], "0L")
        facts[f"{role}_text"] = is_text
        facts[f"{role}_fraction"] = is_text if kinds[role] in _FRACTIONS else "0L"
    (row,) = cells.selectExpr(*(f"{fact} as {name}" for name, fact in facts.items())).collect()
    return dict(row.asDict())


def _is_plain_integer(role: str) -> str:
    """Return the SQL condition that a text is an integer in canonical form.

    The pattern comes first, because each failed cast costs Spark an exception.
    """
    same = f"(cast(try_cast({role} as bigint) as string) <=> {role})"
    return f"(case when {role} rlike '^(0|-?[1-9][0-9]{{0,18}})$' then {same} else false end)"


def _refuse_bad(found: Mapping[str, int], *, skip_bad: bool) -> None:
    for role in ("user", "item"):
        if found[f"{role}_fraction"]:
            raise InputError(f"{_WHERE}: {role} ids are fractions; convert them to integers.")
    if found["no_sequence"]:
        raise InputError(
            f"{_WHERE}: {found['no_sequence']:,} rows have no sequence. Fill the column, or use "
            "ties='strict' (--ties strict) without one."
        )
    if found["bad"] and not skip_bad:
        missing = [
            f"{found[f'no_{role}']:,} without a valid {role}"
            for role in ("user", "item", "time", "rating")
            if found.get(f"no_{role}")
        ]
        raise InputError(
            f"{_WHERE}: of {found['all']:,} rows, {'; '.join(missing)}. Fix them, or pass "
            "skip_bad=True (--skip-bad)."
        )
    if not found["usable"]:
        raise InputError(f"{_WHERE}: none of {found['all']:,} rows is valid; check the columns.")


def _micros(cells: DataFrame, time_format: str | None) -> str:
    """Return the SQL expression of microseconds, in the given unit or that of most times."""
    if time_format is None:
        # Separate from the other aggregates, because Spark does not compile percentiles.
        middle = "cast(percentile_approx(time, 0.5, 1000) as double) as middle"
        ((found,),) = cells.selectExpr(middle).collect()
        time_format = next(unit for unit, bound in _UNIT_BOUNDS if (found or 0.0) < bound)
    if time_format not in _MICROSECONDS:
        raise InputError(
            f"{_WHERE}: times are numbers, and time_format is {time_format!r}. Use a unit (s, ms, "
            "us or ns), or convert text with to_timestamp."
        )
    if time_format == "ns":
        return "cast(floor(time / 1000) as bigint)"
    return f"cast(round(time * {_MICROSECONDS[time_format]}L) as bigint)"
