"""The paper's names of the recommenders, and the recommenders by name."""

from __future__ import annotations

import difflib
from typing import TYPE_CHECKING

from surerec.errors import InputError
from surerec.measures import MEASURES
from surerec.recommenders._inductive import InductiveConformal
from surerec.recommenders._precedence_mining import PrecedenceMining
from surerec.recommenders._transductive import TransductiveConformal

if TYPE_CHECKING:
    from surerec.recommenders._base import Recommender

__all__ = ["KINDS", "make_recommender", "recommender_names"]

KINDS: dict[str, type[Recommender]] = {
    kind.__name__: kind for kind in (InductiveConformal, PrecedenceMining, TransductiveConformal)
}
"""The classes of recommenders by name, as model folders have them."""


def recommender_names() -> list[str]:
    """Give the names that :func:`make_recommender` knows."""
    inductive = [f"icrs{measure.number}" for measure in MEASURES.values()]
    return [
        *inductive,
        "icrs-learned",
        "crs-max",
        "crs-med",
        "precedence-mining",
        "precedence-mining-top1",
    ]


def make_recommender(name: str) -> Recommender:
    """Make a recommender by the paper's name for it.

    Parameters
    ----------
    name : str
        "icrs1" … "icrs17", "icrs-learned", "crs-max", "crs-med", "precedence-mining" or
        "precedence-mining-top1".

    Examples
    --------
    >>> make_recommender("icrs3")
    InductiveConformal(measure='CM3')
    """
    wanted = name.strip().lower()
    for measure in MEASURES.values():
        if wanted == f"icrs{measure.number}":
            return InductiveConformal(measure=measure.name)
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
        "precedence-mining-top1."
    )  # fmt: skip
    raise InputError(f"There is no recommender {name!r}; {hint}")
