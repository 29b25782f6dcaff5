"""Right, borderline and wrong arguments for random calls, and scorers that misbehave."""

from __future__ import annotations

import datetime as dt
import decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np
import pandas as pd
import polars as pl

if TYPE_CHECKING:
    from collections.abc import Callable


class OwnError(Exception):
    """What a scorer of somebody's own raises; it is theirs, and passes through."""


class Broken:
    """A scorer whose scores are right but for one thing."""

    leaves_users_out: Any = True

    def __init__(self, n_items: int, change: Callable[[np.ndarray], Any]) -> None:
        self.n_items = n_items
        self.change = change

    def score(self, history: Any, *, without_user: Any = None) -> Any:  # noqa: ARG002
        """Score every item, and spoil it."""
        return self.change(np.arange(self.n_items) % 7.0)


def _raise(_: object) -> Any:
    raise OwnError("by the scorer itself")


def _with(value: float) -> Callable[[np.ndarray], Any]:
    def change(scores: np.ndarray) -> np.ndarray:
        scores[3] = value
        return scores

    return change


_CHANGES: list[Callable[[np.ndarray], Any]] = [
    lambda scores: scores,
    lambda scores: scores.tolist(),
    lambda scores: scores.astype(np.float32),
    lambda scores: scores.astype(int),
    pl.Series,
    pd.Series,
    lambda scores: scores[:-1],
    lambda scores: scores[:0],
    lambda scores: scores.reshape(-1, 1),
    lambda scores: scores.astype(str),
    lambda scores: scores.astype(complex),
    lambda scores: scores.astype("datetime64[s]"),
    lambda scores: [*scores.tolist()[:-1], None],
    lambda scores: [*scores.tolist()[:-1], "x"],
    lambda _: None,
    lambda _: 3.0,
    lambda _: "scores",
    lambda _: {1: 2.0},
    lambda _: [[1.0], [2.0, 3.0]],
    lambda scores: (score for score in scores),
    _with(np.inf),
    _with(-np.inf),
    _with(np.nan),
    _with(1e308),
    _raise,
]


def scorers(random: np.random.Generator, n_items: int) -> Any:
    """Give a scorer, or what makes one, that may be broken in one way."""
    made = Broken(n_items, _CHANGES[int(random.integers(len(_CHANGES)))])
    made.leaves_users_out = [True, False, None, "x", 1, np.array([1, 2])][int(random.integers(6))]
    oddity = int(random.integers(12))
    if oddity == 0:
        made.value = lambda scores, length, n: scores[:-1]  # type: ignore[attr-defined]  # noqa: ARG005
    elif oddity == 1:
        made.value = lambda *_: [np.nan] * n_items  # type: ignore[attr-defined]
    elif oddity == 2:
        made.contributions = lambda *_: [("words", "x")]  # type: ignore[attr-defined]
    elif oddity == 3:
        made.contributions = lambda *_: 5  # type: ignore[attr-defined]
    elif oddity == 4:
        made.parts = lambda: 5  # type: ignore[attr-defined]
    elif oddity == 5:
        made.parts = lambda: ({"A b": [1]}, {})  # type: ignore[attr-defined]
    elif oddity == 6:
        made.value = lambda *_: "x"  # type: ignore[attr-defined]
    elif oddity == 7:
        made.name = 5  # type: ignore[attr-defined]
    return made if random.random() < 0.5 else (lambda _: made)


def _frame() -> pl.DataFrame:
    return pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "time": [1, 2, 3]})


_WILD: list[Callable[[], Any]] = [
    lambda: None,
    lambda: 5,
    lambda: 0,
    lambda: -1,
    lambda: 1,
    lambda: True,
    lambda: 0.5,
    lambda: 2.5,
    lambda: 1e300,
    lambda: float("inf"),
    lambda: -float("inf"),
    lambda: float("nan"),
    lambda: 10**18,
    lambda: -(10**30),
    lambda: 10**5000,
    lambda: "",
    lambda: "x",
    lambda: "5",
    lambda: "\ud800",
    lambda: "a\nb\x00c",
    lambda: "y" * 100_000,
    lambda: b"",
    lambda: b"x",
    object,
    list,
    dict,
    set,
    lambda: [1, 2],
    lambda: [1, [2]],
    lambda: [None],
    lambda: ["x", 3],
    lambda: {"x": 1},
    lambda: {1: 2},
    lambda: {1, 2, 3},
    lambda: (number for number in (1, 2, 3)),
    lambda: range(3),
    lambda: np.arange(4),
    lambda: np.array(5),
    lambda: np.arange(6).reshape(2, 3),
    lambda: np.array([], dtype=np.float64),
    lambda: np.array(["a", "b"]),
    lambda: np.array([object(), None]),
    lambda: np.array([1 + 2j]),
    lambda: np.array([True, False, True]),
    lambda: np.array([1, 2], dtype="datetime64[s]"),
    lambda: np.array([np.nan, np.inf, 1.0]),
    lambda: np.int8(3),
    lambda: np.uint64(2**64 - 1),
    lambda: np.float32(0.5),
    lambda: np.bool_(True),
    lambda: np.datetime64("2024-01-01"),
    lambda: np.random.default_rng(1),
    _frame,
    lambda: _frame().lazy(),
    lambda: _frame().to_pandas(),
    lambda: pl.Series([1, 2, 3]),
    lambda: pl.Series(["a", None]),
    lambda: pd.Series([1.5, None]),
    lambda: pd.NA,
    lambda: dt.date(2024, 1, 1),
    lambda: dt.datetime(2024, 1, 1),  # noqa: DTZ001
    lambda: dt.datetime(2024, 1, 1, tzinfo=dt.UTC),
    lambda: dt.timedelta(days=3),
    lambda: decimal.Decimal("0.3"),
    lambda: Path("nowhere"),
    lambda: "2024-01-01",
    lambda: print,
    lambda: slice(1, 2),
    lambda: ...,
    lambda: 3j,
]


def wild(random: np.random.Generator) -> Any:
    """Give any value at all."""
    return _WILD[int(random.integers(len(_WILD)))]()
