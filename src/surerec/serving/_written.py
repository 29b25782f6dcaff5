"""Answers as JSON bytes: numbers that JSON can say, and rows that polars writes."""

from __future__ import annotations

import json
import math
from io import BytesIO
from typing import TYPE_CHECKING, Any

import numpy as np
import polars as pl

from surerec._columns import Columns

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.recommenders import RecommendationSet

_FEW = 100  # rows: as many are written sooner one by one than polars begins, on its own threads


def write(fields: dict[str, Any], **frames: pl.DataFrame) -> bytes:
    """Write fields, and frames as rows; polars writes rows ten times as fast as Python does."""
    # As bytes from the beginning: a quarter of a millisecond for a text of 250 kB and back.
    answer = BytesIO()
    text = json.dumps(fields, ensure_ascii=False, separators=(",", ":"), allow_nan=False)
    answer.write(text[:-1].encode())
    comma = "" if not fields else ","
    for name, frame in frames.items():
        answer.write(f'{comma}"{name}":'.encode())
        frame.write_json(answer)
        comma = ","
    answer.write(b"}")
    return answer.getvalue()


def write_set(about: dict[str, Any], picks: RecommendationSet) -> bytes:
    """Write what is said of a set, and its items."""
    if len(picks) > _FEW:
        return write(about, items=_titled(picks.to_frame()))
    return write({**about, "items": rows_of(picks)})


def rows_of(picks: RecommendationSet) -> list[dict[str, Any]]:
    """Give the rows of ``to_frame``."""
    numbers = {name: values.tolist() for name, values in picks.columns.items()}
    codes, ranks = numbers.pop(Columns.Item), numbers.pop(Columns.Rank)
    return [
        {
            Columns.Item: picks.catalogue[code],
            Columns.Rank: ranks[place],
            **{name: finite(values[place]) for name, values in numbers.items()},
            Columns.Title: None if picks.titles is None else picks.titles[code],
        }
        for place, code in enumerate(codes)
    ]


def _titled(frame: pl.DataFrame) -> pl.DataFrame:
    if Columns.Title in frame.columns:
        return frame
    return frame.with_columns(pl.lit(None, dtype=pl.String).alias(Columns.Title))


def numbers(values: Iterable[float]) -> list[float | None]:
    """Give numbers as JSON has them."""
    return [finite(value) for value in np.asarray(values).tolist()]


def finite(value: float) -> float | None:
    """Give null for what JSON cannot say."""
    return value if math.isfinite(value) else None


def complement(level: float | None) -> float | None:
    """Give 1 − level as a person writes it: 0.1, where floats say 0.09999999999999998."""
    return None if level is None else round(1 - level, 12)
