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
    from collections import Counter
    from collections.abc import Mapping

    from pyspark.sql import DataFrame


_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_FRACTIONS: Final = ("float", "double", "decimal")
_MICROSECONDS: Final = {"s": 1e6, "ms": 1e3, "us": 1.0, "ns": 1e-3}
_UNIT_BOUNDS: Final = (("s", 1e11), ("ms", 1e14), ("us", 1e17), ("ns", float("inf")))
_LATEST: Final = 2.0**63 - 1024
_WHERE: Final = "the Spark DataFrame"
_EPOCH: Final = "timestamp_ntz'1970-01-01 00:00:00'"


@dataclass(frozen=True)
class SparkRows:
    """Rows that can be used, and what became of the others."""

    rows: DataFrame
    """user, item, time, sequence; with rating, if they are not looked at yet."""
    item_type: str
    rows_read: RowsRead | None
    """None if rows are not looked at yet: whoever reads them counts what cannot be used."""
    threshold: float | None
    skip_bad: bool

    def checked(self, found: Counter[str]) -> RowsRead:
        """Refuse what cannot be used, by what was found when rows were read."""
        _complain(found, _WHERE, skip_bad=self.skip_bad)
        return _rows_read(found)


def read_source(
    frame: DataFrame,
    *,
    user: str | None = None,
    item: str | None = None,
    time: str | None = None,
    rating: str | None = None,
    sequence: str | None = None,
    threshold: float | None = 0.0,
    time_format: str | None = None,
    skip_bad: bool = False,
) -> SparkRows:
    """Find the columns, look at all rows once, and say which can be used."""
    wanted = {"user": user or None, "item": item or None, "time": time, "rating": rating}
    where = _WHERE
    columns = find_columns(frame.columns, wanted, where)
    kinds = {name: kind.split("(")[0] for name, kind in frame.dtypes}
    if sequence is not None and (sequence not in kinds or kinds[sequence] not in _WHOLE):
        raise InputError(
            f"{where}: the sequence column {sequence!r} must be there and hold integers; found: "
            f"{', '.join(f'{name} {kind}' for name, kind in kinds.items())}."
        )
    if threshold is None:
        columns.pop("rating", None)
    time_kind = kinds[columns["time"]]
    numeric_time = not time_kind.startswith(("timestamp", "date"))
    # Then nothing about how cells are read depends on the rows: one pass less over the source.
    is_plain = (not numeric_time or time_format is not None) and all(
        kinds[columns[role]] in _WHOLE for role in ("user", "item")
    )
    readings = {role: _cell(role, name, kinds[name], where) for role, name in columns.items()}
    if is_plain and time_kind.startswith("timestamp"):
        readings["time"] = _quoted(columns["time"])  # Arrow has it in microseconds as well
    cells = frame.selectExpr(
        *(f"{reading} as {role}" for role, reading in readings.items()),
        f"cast({_quoted(sequence)} as bigint) as sequence" if sequence else "0L as sequence",
    )
    if is_plain:
        micros = _micros(_scale(cells, time_format, where)) if numeric_time else "time"
        others = [role for role in columns if role != "time"]
        rows = cells.selectExpr(*others, f"{micros} as time", "sequence")
        return SparkRows(rows, "bigint", None, threshold, skip_bad)
    found = _look(cells, kinds, columns, threshold, has_sequence=sequence is not None)
    scale = _scale(cells, time_format, where) if numeric_time else None
    _complain(found, where, skip_bad=skip_bad)
    types = {}
    for role in ("user", "item"):
        is_text = kinds[columns[role]] == "string" and found[f"{role}_text"] > 0
        types[role] = "string" if is_text else "bigint"
    rows = cells.where(_usable(columns, threshold)).selectExpr(
        *(f"cast({role} as {kind}) as {role}" for role, kind in types.items()),
        f"{_micros(scale)} as time",
        "sequence",
    )
    return SparkRows(rows, types["item"], _rows_read(found), threshold, skip_bad)


def _rows_read(found: Mapping[str, int]) -> RowsRead:
    return RowsRead(
        rows=found["all"],
        bad=found["bad"],
        below_threshold=found["all"] - found["bad"] - found["usable"],
    )


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def _cell(role: str, name: str, kind: str, where: str) -> str:
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
        raise InputError(f"{where}: the {role} column must hold {wanted}, not {kind}; convert it.")
    return found


def _usable(columns: dict[str, str], threshold: float | None) -> str:
    known = " and ".join(f"{role} is not null" for role in columns)
    if threshold is None or "rating" not in columns:
        return known
    return f"{known} and rating > {float(threshold)!r}D"


def _look(
    cells: DataFrame,
    kinds: dict[str, str],
    columns: dict[str, str],
    threshold: float | None,
    *,
    has_sequence: bool,
) -> dict[str, Any]:
    """Look at every row once."""
    known = " and ".join(f"{role} is not null" for role in columns)
    facts = {
        "`all`": "count(*)",
        "usable": f"count_if({_usable(columns, threshold)})",
        "bad": f"count_if(not ({known}))",
        "no_sequence": "count_if(sequence is null)" if has_sequence else "0L",
    }
    for role in columns:
        facts[f"no_{role}"] = f"count_if({role} is null)"
    for role in ("user", "item"):
        kind = kinds[columns[role]]
        facts[f"{role}_text"] = (
            f"count_if({role} is not null and not {_is_plain_integer(role)})"
            if kind == "string"
            else f"count_if({role} != round({role}))"
            if kind in _FRACTIONS
            else "0L"
        )
        facts[f"{role}_fraction"] = facts[f"{role}_text"] if kind in _FRACTIONS else "0L"
    row = cells.selectExpr(*(f"{fact} as {name}" for name, fact in facts.items())).first()
    if row is None:  # an aggregate without groups has one row
        raise InputError("Spark gave no answer about the DataFrame.")
    facts_found: dict[str, Any] = row.asDict()
    return facts_found


def _is_plain_integer(role: str) -> str:
    """Return whether text is an integer as it is written back.

    The pattern comes first, for each text that cannot be cast costs Spark an exception.
    """
    same = f"(cast(try_cast({role} as bigint) as string) <=> {role})"
    return f"(case when {role} rlike '^(0|-?[1-9][0-9]{{0,18}})$' then {same} else false end)"


def _complain(found: Mapping[str, int], where: str, *, skip_bad: bool) -> None:
    for role in ("user", "item"):
        if found[f"{role}_fraction"]:
            raise InputError(f"{where}: {role} ids must be integers or text, not fractions.")
    if found["no_sequence"]:
        raise InputError(
            f"{where}: {found['no_sequence']:,} rows have no sequence; fill the column, or use "
            "ties='strict' without one."
        )
    if found["bad"] and not skip_bad:
        missing = [
            f"{found[f'no_{role}']:,} without a usable {role}"
            for role in ("user", "item", "time", "rating")
            if found.get(f"no_{role}")
        ]
        raise InputError(
            f"{where}: of {found['all']:,} rows, {'; '.join(missing)}; mend them, or drop such "
            "rows with skip_bad=True in Python or --skip-bad on the command line."
        )
    if not found["usable"]:
        raise InputError(f"{where}: no row is left to use, of {found['all']:,} read.")


def _scale(cells: DataFrame, time_format: str | None, where: str) -> float:
    if time_format is not None and time_format not in _MICROSECONDS:
        raise InputError(
            f"{where}: the times are numbers, so their format is a unit (s, ms, us or ns), not "
            f"{time_format!r}; dates in text are read after to_timestamp."
        )
    if time_format is not None:
        return _MICROSECONDS[time_format]
    # Apart from the other facts, for with a percentile among them Spark compiles none of them.
    row = cells.selectExpr("cast(percentile_approx(time, 0.5, 1000) as double) as middle").first()
    middle = 0.0 if row is None else row["middle"] or 0.0
    return _MICROSECONDS[next(unit for unit, bound in _UNIT_BOUNDS if middle < bound)]


def _micros(scale: float | None) -> str:
    if scale is None:
        return "cast(time as bigint)"
    if scale < 1:
        return "cast(floor(time / 1000) as bigint)"
    return f"cast(round(time * {int(scale)}L) as bigint)"
