"""Random calls of the whole public API, with right, borderline and wrong arguments.

A call answers, or refuses by an error of surerec's own in one sentence. Two errors may pass: what
Python says of a wrong number or name of arguments, and what a scorer of somebody's own raises.
"""

from __future__ import annotations

import os
import re
import warnings
from contextlib import contextmanager
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import numpy as np

import fuzz.signatures as table
from fuzz.tally import Tally
from fuzz.values import OwnError, wild

if TYPE_CHECKING:
    from collections.abc import Iterator

    from fuzz.signatures import Call

_WRONG = (0.0, 0.1, 0.4)  # of the arguments: calls that are all right are made, too
_LEFT_OUT = 0.35
_PYTHONS_OWN = re.compile(
    r"unexpected keyword argument|required (keyword-only |positional )?argument|"
    r"positional arguments? but|got multiple values"
)
_SHOWN = 160


def run(n: int, seed: int) -> Tally:
    """Make random calls, and count what came of them."""
    tally = Tally("calls")
    with TemporaryDirectory(prefix="surerec-fuzz-") as scratch, _quiet(), _inside(Path(scratch)):
        subjects = table.Subjects(Path(scratch))
        calls = table.calls(subjects)
        chances = np.array([call.weight for call in calls]) / sum(call.weight for call in calls)
        for number in range(n):
            random = np.random.default_rng((seed, number))
            call = calls[int(random.choice(len(calls), p=chances))]
            drawn = _Drawn.of(call, random)
            example = f"call {number} of seed {seed}: {call.name}({drawn.words})"
            tally.attempt(partial(_make, tally, call, drawn), example[:1000])
    return tally


@dataclass(frozen=True)
class _Drawn:
    """The arguments of one call."""

    arguments: dict[str, Any]
    words: str

    @classmethod
    def of(cls, call: Call, random: np.random.Generator) -> _Drawn:
        arguments, wrong = {}, _WRONG[int(random.integers(len(_WRONG)))]
        for name, right in call.arguments.items():
            if name not in call.required and random.random() < _LEFT_OUT:
                continue
            arguments[name] = wild(random) if random.random() < wrong else right(random)
        return cls(arguments, ", ".join(f"{name}={_shown(v)}" for name, v in arguments.items()))


def _shown(value: object) -> str:
    try:
        return re.sub(r"\s+", " ", repr(value))[:_SHOWN]
    except Exception:  # noqa: BLE001  # a number of 5,000 digits
        return f"a {type(value).__name__}"


def _make(tally: Tally, call: Call, drawn: _Drawn) -> None:
    try:
        _look_at(call.act(**drawn.arguments))
    except OwnError:
        tally.notes["errors of a scorer's own that passed through"] += 1
    except AssertionError:
        if not call.may_fail:
            raise
        tally.notes["contract tests that failed, as they should"] += 1
    except TypeError as error:
        if not _PYTHONS_OWN.search(str(error)):
            raise
        tally.notes["arguments that Python itself refuses"] += 1


def _look_at(answer: object) -> None:
    """Use an answer as people do: it must not break when it is looked at."""
    repr(answer), str(answer)
    for method in ("to_frame", "to_html"):
        if hasattr(answer, method) and not isinstance(answer, type):
            getattr(answer, method)()


@contextmanager
def _quiet() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        yield


@contextmanager
def _inside(folder: Path) -> Iterator[None]:
    """Work in a folder, so that paths that were made up lead nowhere else."""
    before = Path.cwd()
    os.chdir(folder)
    try:
        yield
    finally:
        os.chdir(before)
