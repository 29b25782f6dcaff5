"""The 17 (non)conformity measures: four statistics × four aggregates, and the score."""

from __future__ import annotations

from dataclasses import dataclass
from types import MappingProxyType
from typing import TYPE_CHECKING, Literal

from surerec._shown import near, shown
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

_LONGEST_NAME = 100

Statistic = Literal["score", "count", "share", "ratio", "absent"]
Aggregate = Literal["top", "minimum", "median", "mean", "maximum"]


@dataclass(frozen=True)
class Measure:
    """How well item h fits a profile T, as the paper defines it.

    Examples
    --------
    >>> MEASURES["CM12"].formula
    'mean over i in T of PC(i, h) / (Sup(i) − PC(h, i))'
    """

    name: str
    """The paper's name."""
    readable: str
    """A name that says what it is."""
    statistic: Statistic
    aggregate: Aggregate
    formula: str

    @property
    def number(self) -> int:
        """The paper's number, 1 to 17."""
        return int(self.name.lstrip("NCM"))

    @property
    def is_nonconformity(self) -> bool:
        """Whether a higher value means a worse fit."""
        return self.statistic == "absent"


_SCORE = Measure(
    "CM1", "score", "score", "top", "Sup(h) / n_u · product of the top I of PC(i, h) / Sup(h)"
)
_AGGREGATES: tuple[Aggregate, ...] = ("minimum", "median", "mean", "maximum")
_STATISTICS: tuple[tuple[Statistic, str], ...] = (
    ("count", "PC(i, h)"),  # CM2–5: how many took h after i
    ("share", "PC(i, h) / Sup(i)"),  # CM6–9: the share of those who took i (paper.md 1)
    ("ratio", "PC(i, h) / (Sup(i) − PC(h, i))"),  # CM10–13: of those who had not taken h before
    ("absent", "(Sup(i) − PC(i, h)) / n_u"),  # NCM14–17: took i and not h after it
)


def _all() -> dict[str, Measure]:
    measures = [_SCORE]
    for statistic, formula in _STATISTICS:
        for aggregate in _AGGREGATES:
            name = f"{'NCM' if statistic == 'absent' else 'CM'}{len(measures) + 1}"
            words = f"{aggregate} over i in T of {formula}"
            measures.append(Measure(name, f"{aggregate}-{statistic}", statistic, aggregate, words))
    return {measure.name: measure for measure in measures}


MEASURES: Mapping[str, Measure] = MappingProxyType(_all())
"""The 17 measures by the paper's name, in its order."""


def find_measure(name: str | int) -> Measure:
    """Look a measure up by the paper's name, its number, ICRS name, or its readable name.

    Examples
    --------
    >>> find_measure("icrs12").name, find_measure(3).name, find_measure("mean-share").name
    ('CM12', 'CM3', 'CM8')
    """
    if isinstance(name, bool) or not isinstance(name, (str, int)):
        raise InputError(f"There is no measure {shown(name)}; a measure has a name or a number.")
    wanted = (name if isinstance(name, str) else shown(name)).strip().lower()[:_LONGEST_NAME]
    for measure in MEASURES.values():
        number = str(measure.number)
        if wanted in (measure.name.lower(), measure.readable, number, f"icrs{number}"):
            return measure
    names = [measure.name for measure in MEASURES.values()]
    readable = [measure.readable for measure in MEASURES.values()]
    alike = near(wanted, [n.lower() for n in names] + readable)
    hint = f" (did you mean {' or '.join(alike)}?)" if alike else ""
    raise InputError(
        f"There is no measure {shown(name)}{hint}; there are {', '.join(names)}, "
        f"or by what they are: {', '.join(readable)}; or 'learned' or 'als', which are trained."
    )
