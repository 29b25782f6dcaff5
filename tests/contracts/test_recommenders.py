"""One body of contracts over every recommender and every kind of scorer."""

import warnings
from functools import partial
from importlib.util import find_spec

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.adapters import ItemItem
from surerec.testing import CHECKS, ModelUnderTest, check_recommender, check_scorer
from tests.contracts import support
from tests.contracts.support import DATA, FUTURE, OF_ITEMS, OF_USERS, PAST, Careful, Refitted


class Nearest:
    """A scorer that comes as it is, and has no other method than `score`."""

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return -np.abs(np.arange(DATA.n_items) - history[-1]).astype(float)


SCORERS = {"CM12": "CM12", "CM1": "CM1", "NCM15": "NCM15", "learned": "learned"}
SCORERS |= {"als": "als"}
SCORERS |= {"own function": Careful, "own scorer": Nearest()}
OWN = ("own function", "own scorer")
KINDS = {
    "inductive": sr.InductiveConformal,
    "smoothed": partial(sr.InductiveConformal, smoothed=True),
    "miss rate": partial(sr.PopulationConformal, n_calibration=120),
    "hit": partial(
        sr.PopulationConformal, guarantee="hit", horizon=5, threshold="rank", segments=2
    ),
}
SUBJECTS = {
    f"{kind}, {name}": ModelUnderTest(partial(make, scorer), DATA, scorer if name in OWN else None)
    for kind, make in KINDS.items()
    for name, scorer in SCORERS.items()
}
SUBJECTS |= {
    "CRS-max": ModelUnderTest(sr.TransductiveConformal, DATA),
    "CRS-med": ModelUnderTest(partial(sr.TransductiveConformal, "median"), DATA),
    "precedence mining": ModelUnderTest(sr.PrecedenceMining, DATA),
    "precedence mining, top 1": ModelUnderTest(partial(sr.PrecedenceMining, top=1), DATA),
}
SUBJECTS["own segments"] = ModelUnderTest(
    partial(sr.PopulationConformal, segments=("segment", 2)),
    DATA,
    fit_params={"user_segments": support.SEGMENTS},
)
LISTS = pl.DataFrame(
    {
        "user_id": np.repeat(PAST.users.ids.to_numpy(), DATA.n_items),
        "item_id": np.tile(PAST.items.ids.to_numpy(), DATA.n_users),
        "score": (OF_USERS @ OF_ITEMS.T).ravel(),
    }
)


def calibrated(model, scorer=None, **ids):
    """Return the subject of a model that comes fitted."""
    return ModelUnderTest(partial(sr.wrap, model, **ids), PAST, scorer, future=FUTURE)


def fitted_here(**settings):
    """Return the subject of a model of which a copy is fitted, and only Python has its scores."""
    make = partial(sr.wrap, Refitted(), **settings)
    return ModelUnderTest(make, DATA, make().fit(DATA).wrapped_)


def wrapped_implicit():
    """Return subjects around models of implicit, of which copies are fitted."""
    if find_spec("implicit") is None:
        return {}
    from implicit.als import AlternatingLeastSquares  # noqa: PLC0415
    from implicit.bpr import BayesianPersonalizedRanking  # noqa: PLC0415
    from implicit.nearest_neighbours import CosineRecommender  # noqa: PLC0415

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # implicit warns of BLAS
        als = AlternatingLeastSquares(8, random_state=1, iterations=3)
        bpr = BayesianPersonalizedRanking(8, random_state=1, num_threads=1, iterations=20)
    return {
        "wrapped, als": ModelUnderTest(partial(sr.wrap, als), DATA),
        "wrapped, als for new users": ModelUnderTest(
            partial(sr.wrap, als, covers="new-users"), DATA
        ),
        "wrapped, bpr": ModelUnderTest(partial(sr.wrap, bpr), DATA),
        "wrapped, cosine": ModelUnderTest(partial(sr.wrap, CosineRecommender(K=20)), DATA),
        "wrapped, hits in groups": ModelUnderTest(
            partial(sr.wrap, als, guarantee="hit", horizon=5, segments=2), DATA
        ),
    }


WRAPPED = {
    **{
        name: calibrated(model, model if callable(model) else None, **ids)
        for name, (model, ids) in support.WRAPPED.items()
    },
    "wrapped popularity": calibrated(
        ItemItem.constant(range(DATA.n_items)), items=PAST.items.ids.to_list()
    ),
    "wrapped, lists": calibrated(LISTS),
    "wrapped, fitted here": fitted_here(),
    "wrapped, fitted here for its users": fitted_here(covers="fit"),
    **wrapped_implicit(),
}
SUBJECTS |= WRAPPED
SLOW = {"served", "audited", "on Spark"}
A_FEW = [
    name
    for name in SUBJECTS
    if not name.startswith("smoothed") and not name.endswith(("CM1", "NCM15"))
]


@pytest.mark.parametrize("check", sorted(set(CHECKS) - SLOW))
@pytest.mark.parametrize("name", SUBJECTS)
def test_the_contract(name, check, tmp_path):
    CHECKS[check](SUBJECTS[name], tmp_path)


@pytest.mark.slow
@pytest.mark.parametrize("name", A_FEW)
def test_it_is_audited(name, tmp_path):
    CHECKS["audited"](SUBJECTS[name], tmp_path)


@pytest.mark.parametrize(
    "name", ["inductive, CM12", "miss rate, learned", "hit, als", "hit, own scorer", *WRAPPED]
)
def test_it_is_served_or_refused(name, tmp_path):
    pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")
    CHECKS["served"](SUBJECTS[name], tmp_path)


class Fickle(Careful):
    """Wrong: it scores otherwise each time."""

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return np.random.default_rng().random(len(self.statistics.support))


def test_a_scorer_that_breaks_the_contract_is_caught():
    with pytest.raises(AssertionError, match=r"(many users|p-values): "):
        check_scorer(Fickle, only=["many users", "p-values"])


def test_the_checks_run_in_one_go():
    check_recommender(ModelUnderTest(sr.TransductiveConformal, DATA), only=set(CHECKS) - SLOW)
