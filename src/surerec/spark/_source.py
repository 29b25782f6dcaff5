"""From a Spark DataFrame to rows of user, item, time and sequence, by the reader's rules.

Written in Spark's SQL, so that nothing here asks for pyspark before a DataFrame is given.
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
    """Rows that can be used, and what became of the others."""

    rows: DataFrame
    """user, item, time, sequence."""
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
    """Find the columns, look at all rows once, and check which can be used."""
    wanted = {"user": user or None, "item": item or None, "time": time, "rating": rating}
    columns = find_columns(frame.columns, wanted, _WHERE)
    kinds = {name: kind.split("(")[0] for name, kind in frame.dtypes}
    if sequence is not None and (sequence not in kinds or kinds[sequence] not in _WHOLE):
        raise InputError(
            f"{_WHERE}: the sequence column {sequence!r} must be there and hold integers; found: "
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
    found = _look(cells, {role: kinds[name] for role, name in columns.items()}, known, usable)
    _complain(found, skip_bad=skip_bad)
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
    """Return how a cell is read; what cannot be used comes out null."""
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
        wanted = "timestamps, dates or Unix times" if role == "time" else "integers or text"
        raise InputError(f"{_WHERE}: the {role} column must hold {wanted}, not {kind}; convert it.")
    return found


def _look(cells: DataFrame, kinds: dict[str, str], known: str, usable: str) -> dict[str, Any]:
    """Look at every row once."""
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
    """Return whether text is an integer as it is written back.

    The pattern comes first, for each text that cannot be cast costs Spark an exception.
    """
    same = f"(cast(try_cast({role} as bigint) as string) <=> {role})"
    return f"(case when {role} rlike '^(0|-?[1-9][0-9]{{0,18}})$' then {same} else false end)"


def _complain(found: Mapping[str, int], *, skip_bad: bool) -> None:
    for role in ("user", "item"):
        if found[f"{role}_fraction"]:
            raise InputError(f"{_WHERE}: {role} ids must be integers or text, not fractions.")
    if found["no_sequence"]:
        raise InputError(
            f"{_WHERE}: {found['no_sequence']:,} rows have no sequence; fill the column, or use "
            "ties='strict' without one."
        )
    if found["bad"] and not skip_bad:
        missing = [
            f"{found[f'no_{role}']:,} without a usable {role}"
            for role in ("user", "item", "time", "rating")
            if found.get(f"no_{role}")
        ]
        raise InputError(
            f"{_WHERE}: of {found['all']:,} rows, {'; '.join(missing)}; fix them, or drop such "
            "rows with skip_bad=True in Python or --skip-bad on the command line."
        )
    if not found["usable"]:
        raise InputError(f"{_WHERE}: no row is left to use, of {found['all']:,} read.")


def _micros(cells: DataFrame, time_format: str | None) -> str:
    """Return how numbers are read as microseconds, in the given unit or that of most of them."""
    if time_format is None:
        # Apart from the other facts, for with a percentile among them Spark compiles none of them.
        middle = "cast(percentile_approx(time, 0.5, 1000) as double) as middle"
        ((found,),) = cells.selectExpr(middle).collect()
        time_format = next(unit for unit, bound in _UNIT_BOUNDS if (found or 0.0) < bound)
    if time_format not in _MICROSECONDS:
        raise InputError(
            f"{_WHERE}: the times are numbers, so their format is a unit (s, ms, us or ns), not "
            f"{time_format!r}; dates in text are read after to_timestamp."
        )
    if time_format == "ns":
        return "cast(floor(time / 1000) as bigint)"
    return f"cast(round(time * {_MICROSECONDS[time_format]}L) as bigint)"
