"""The lines on reading: against polars, and against reading cell by cell."""

# ruff: noqa: SLF001  # a part of `lines`
from __future__ import annotations

from typing import TYPE_CHECKING

from benchmarks.lines import _fails, _line
from benchmarks.plan import ALL_FILMS, FILMS, LOAD_DATA, LONG_FILE
from surerec._words import in_bytes

if TYPE_CHECKING:
    from benchmarks.lines import Judge, Line

_READING = {("csv", "polars"): 2.0, ("parquet", "polars-sorted"): 1.5}
_FILMS, _FILMS_PEAK = 3.0, 9e9


def reading_lines(judge: Judge) -> list[Line]:
    """Return all lines on reading."""
    found = []
    files = [(LOAD_DATA, "csv"), (LOAD_DATA, "parquet")]
    for name, suffix in files + ([(LONG_FILE, "parquet")] if judge.scale.curve else []):
        group = f"Reading, {judge.size(name)}"
        for peer, label in (
            ("polars", "reading it"),
            ("polars-sorted", "reading and sorting it by user and time"),
        ):
            keys = [f"load/{name}/{suffix}/{who}" for who in ("surerec", peer)]
            if keys[1] not in judge.outcomes:
                continue
            pair = (judge._figure(keys[0], "seconds"), judge._figure(keys[1], "seconds"))
            what = f"{suffix}, as a multiple of polars {label}"
            found.append(judge._at_most(group, what, pair, "s", _READING.get((suffix, peer))))
    return found + _films(judge)


def _films(judge: Judge) -> list[Line]:
    """Compare rates with reading the smaller folder cell by cell."""
    found, theirs = [], judge._figure("films/by-cells", "megabytes_per_second")
    names = {"films/surerec": FILMS} | ({"films/all": ALL_FILMS} if judge.scale.curve else {})
    for key, name in names.items():
        group, outcome = f"Reading, Netflix-Prize folder, {judge.size(name)}", judge.outcomes[key]
        rate, peak = (outcome.figures.get(f) for f in ("megabytes_per_second", "peak"))
        ratio = rate / theirs if rate and theirs else None
        cells = [f"{r:.3g} MB/s" if r else "not measured" for r in (rate, theirs)]
        met = _fails(outcome) if rate is None else None if ratio is None else ratio >= _FILMS
        found.append(
            _line(
                group,
                "against cell by cell",
                *cells,
                ratio=ratio,
                bar=f"≥ {_FILMS:g}×",
                met=met,
            )
        )
        judged = name == ALL_FILMS
        met = (_fails(outcome) if peak is None else peak <= _FILMS_PEAK) if judged else None
        cell = outcome.status if peak is None else in_bytes(peak)
        bar = f"≤ {in_bytes(_FILMS_PEAK)}" if judged else ""
        share = None if peak is None else peak / _FILMS_PEAK
        found.append(
            _line(group, "peak memory", cell, ratio=share, ratio_text="", bar=bar, met=met)
        )
    return found
