"""The paper's names of the recommenders, and the recommenders by name."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Final

from surerec._arguments import check_text
from surerec._shown import near, shown
from surerec.calibration import PROMISES
from surerec.errors import InputError
from surerec.measures import recipe_names
from surerec.recommenders._item_level import (
    InductiveConformal,
    PrecedenceMining,
    TransductiveConformal,
)
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._wrapped import WrappedRecommender

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.calibration import Promise
    from surerec.recommenders._estimator import Recommender

KINDS: dict[str, type[Recommender]] = {
    kind.__name__: kind
    for kind in (
        InductiveConformal,
        PopulationConformal,
        PrecedenceMining,
        TransductiveConformal,
        WrappedRecommender,
    )
}
"""The classes of recommenders by name, as model folders have them."""


_OTHERS: dict[str, Callable[[], Recommender]] = {
    "crs-max": lambda: TransductiveConformal(aggregate="max"),
    "crs-med": lambda: TransductiveConformal(aggregate="median"),
    "precedence-mining": PrecedenceMining,
    "precedence-mining-top1": lambda: PrecedenceMining(top=1),
}


def _inductive() -> dict[str, Callable[[], Recommender]]:
    makers = {name: partial(InductiveConformal, measure=name) for name in recipe_names()}
    return {make().default_name(): make for make in makers.values()}


def _over_users() -> dict[str, Callable[[], Recommender]]:
    """Give every promise with every measure; by name."""
    return {
        f"{promise.prefix}-{measure.lower()}": partial(_promising, promise, measure)
        for promise in PROMISES.values()
        for measure in recipe_names()
    }


def _promising(promise: Promise, measure: str) -> Recommender:
    return PopulationConformal(measure, promise=promise.name, horizon=promise.horizon)


DEFAULT_NAMES: Final = ("population-cm12", "icrs12")
"""What is fitted where nothing is said: a promise that holds in time order, and the paper's."""


def recommender_names() -> list[str]:
    """Give the names that :func:`make_recommender` knows."""
    return [*_inductive(), *_OTHERS, *_over_users()]


def make_recommender(name: str) -> Recommender:
    """Make a recommender by name: the paper's, or what is calibrated over users.

    Parameters
    ----------
    name : str
        "icrs1" … "icrs17", "icrs-learned", "icrs-als", "crs-max", "crs-med", "precedence-mining" or
        "precedence-mining-top1"; "population-cm12" (miss rate) or "hit-cm12" (a hit among the next
        5 items), with any measure or with "learned" or "als".

    Examples
    --------
    >>> make_recommender("icrs3")
    InductiveConformal(measure='CM3')
    """
    wanted = check_text("name", name).strip().lower()
    every = {**_inductive(), **_OTHERS, **_over_users()}
    if wanted in every:
        return every[wanted]()
    alike = near(wanted, recommender_names())
    hint = f"did you mean {' or '.join(alike)}?" if alike else (
        "there are icrs1 … icrs17, icrs-learned, icrs-als, crs-max, crs-med, precedence-mining, "
        "precedence-mining-top1, and population-… and hit-… with a measure, such as "
        "population-cm12."
    )  # fmt: skip
    raise InputError(f"There is no recommender {shown(name)}; {hint}")
