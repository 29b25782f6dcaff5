"""The paper's names of the recommenders, and the recommenders by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError
from surerec.measures import MEASURES
from surerec.recommenders._inductive import InductiveConformal
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._precedence_mining import PrecedenceMining
from surerec.recommenders._transductive import TransductiveConformal

if TYPE_CHECKING:
    from surerec.recommenders._base import Recommender

__all__ = ["KINDS", "make_recommender", "recommender_names"]

KINDS: dict[str, type[Recommender]] = {
    kind.__name__: kind
    for kind in (InductiveConformal, PopulationConformal, PrecedenceMining, TransductiveConformal)
}
"""The classes of recommenders by name, as model folders have them."""


_OVER_USERS: dict[str, dict[str, Any]] = {
    "population": {"promise": "miss-rate"},
    "hit": {"promise": "hit", "horizon": 5},
}


def recommender_names() -> list[str]:
    """Give the names that :func:`make_recommender` knows."""
    inductive = [f"icrs{measure.number}" for measure in MEASURES.values()]
    others = ["icrs-learned", "crs-max", "crs-med", "precedence-mining", "precedence-mining-top1"]
    measures = [*MEASURES, "learned"]
    population = [f"{kind}-{name.lower()}" for kind in _OVER_USERS for name in measures]
    return [*inductive, *others, *population]


def make_recommender(name: str) -> Recommender:
    """Make a recommender by name: the paper's, or what is calibrated over users.

    Parameters
    ----------
    name : str
        "icrs1" … "icrs17", "icrs-learned", "crs-max", "crs-med", "precedence-mining" or
        "precedence-mining-top1"; "population-cm12" (miss rate) or "hit-cm12" (a hit among the next
        5 items), with any measure or with "learned".

    Examples
    --------
    >>> make_recommender("icrs3")
    InductiveConformal(measure='CM3')
    """
    wanted = name.strip().lower()
    for measure in MEASURES.values():
        if wanted == f"icrs{measure.number}":
            return InductiveConformal(measure=measure.name)
    for kind, settings in _OVER_USERS.items():
        for name_of_measure in [*MEASURES, "learned"]:
            if wanted == f"{kind}-{name_of_measure.lower()}":
                return PopulationConformal(name_of_measure, **settings)
    others: dict[str, Recommender] = {
        "icrs-learned": InductiveConformal(measure="learned"),
        "crs-max": TransductiveConformal(aggregate="max"),
        "crs-med": TransductiveConformal(aggregate="median"),
        "precedence-mining": PrecedenceMining(),
        "precedence-mining-top1": PrecedenceMining(top=1),
    }
    if wanted in others:
        return others[wanted]
    near = difflib.get_close_matches(wanted, recommender_names(), n=3)
    hint = f"did you mean {' or '.join(near)}?" if near else (
        "there are icrs1 … icrs17, icrs-learned, crs-max, crs-med, precedence-mining, "
        "precedence-mining-top1, and population-… and hit-… with a measure, such as "
        "population-cm12."
    )  # fmt: skip
    raise InputError(f"There is no recommender {name!r}; {hint}")
