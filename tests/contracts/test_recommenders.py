"""One body of contracts over every recommender and every kind of scorer."""

from functools import partial

import numpy as np
import pytest
from sklearn.base import clone

import surerec as sr
from surerec.adapters import Factors, ItemItem
from surerec.testing import CHECKS, Subject, check_recommender, check_scorer

DATA = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, seed=1)


class Popular:
    """A scorer of somebody's own, made from statistics: it can be fitted on any past."""

    leaves_users_out = True

    def __init__(self, statistics):
        self.statistics = statistics

    def score(self, history, *, without_user=None):  # noqa: ARG002
        support = self.statistics.support.astype(float)
        support[self.statistics.taken_by(without_user)[0]] -= 1
        return support


class Nearest:
    """A scorer that comes as it is, and has no other method than `score`."""

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return -np.abs(np.arange(DATA.n_items) - history[-1]).astype(float)


SCORERS = {"CM12": "CM12", "CM1": "CM1", "NCM15": "NCM15", "learned": "learned"}
SCORERS |= {"als": "als"}
SCORERS |= {"own function": Popular, "own scorer": Nearest()}
OWN = ("own function", "own scorer")
KINDS = {
    "inductive": sr.InductiveConformal,
    "smoothed": partial(sr.InductiveConformal, smoothed=True),
    "miss rate": partial(sr.PopulationConformal, n_calibration=120),
    "hit": partial(sr.PopulationConformal, promise="hit", horizon=5, cut="rank", groups=2),
}
SUBJECTS = {
    f"{kind}, {name}": Subject(partial(make, scorer), DATA, scorer if name in OWN else None)
    for kind, make in KINDS.items()
    for name, scorer in SCORERS.items()
}
SUBJECTS |= {
    "CRS-max": Subject(sr.TransductiveConformal, DATA),
    "CRS-med": Subject(partial(sr.TransductiveConformal, "median"), DATA),
    "precedence mining": Subject(sr.PrecedenceMining, DATA),
    "precedence mining, top 1": Subject(partial(sr.PrecedenceMining, top=1), DATA),
}
SEGMENTS = {user: "even" if user % 2 else "odd" for user in DATA.users.ids}
SUBJECTS["groups of people's own"] = Subject(
    partial(sr.PopulationConformal, groups=("segment", 2)),
    DATA,
    fit_params={"user_groups": SEGMENTS},
)
ORDER = DATA.items.ids.to_list()
TASTES = np.random.default_rng(4).random((DATA.n_users + DATA.n_items, 6), dtype=np.float32)
ARRAYS = {
    "factors": Factors(TASTES[: DATA.n_users], TASTES[DATA.n_users :], folding=(0.1, 2.0)),
    "item-item": ItemItem(np.tril(TASTES[DATA.n_users :] @ TASTES[DATA.n_users :].T)),
}


class Wrapped(sr.WrappedRecommender):
    """A wrapped model that comes fitted, on the first part of what `fit` is given."""

    def fit(self, data, y=None):  # noqa: ARG002
        later = profile_cases(data, 0.4).future_rows()
        return self.calibrate(data.keeping(~later), data.keeping(later))


def latest(histories):
    """A function of somebody's own: whatever is near to the last item."""
    return [[-abs(item - history[-1]) for item in ORDER] for history in histories]


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


@pytest.mark.parametrize("name", A_FEW)
def test_it_is_audited(name, tmp_path):
    CHECKS["audited"](SUBJECTS[name], tmp_path)


@pytest.mark.parametrize(
    "name", ["inductive, CM12", "miss rate, learned", "hit, als", "hit, own scorer"]
)
def test_it_is_served_or_refused(name, tmp_path):
    pytest.importorskip("fastapi", reason="serving needs the extra: pip install 'surerec[serve]'")
    CHECKS["served"](SUBJECTS[name], tmp_path)


@pytest.mark.parametrize("name", SUBJECTS)
def test_scikit_learn_clones_it(name):
    model = SUBJECTS[name].make()
    twin = clone(model)
    assert twin is not model
    assert type(twin) is type(model)
    assert twin.get_params().keys() == model.get_params().keys()


class Fickle(Popular):
    """Wrong: it scores otherwise each time."""

    def score(self, history, *, without_user=None):  # noqa: ARG002
        return np.random.default_rng().random(len(self.statistics.support))


def test_a_scorer_that_breaks_the_contract_is_caught():
    with pytest.raises(AssertionError, match=r"(many users|p-values|fast paths): "):
        check_scorer(Fickle, only=["many users", "p-values", "fast paths"])


def test_a_scorer_of_the_wrong_length_is_told_so():
    class Short:
        def score(self, history, *, without_user=None):  # noqa: ARG002
            return np.zeros(3)

    with pytest.raises(sr.InputError, match=r"Short gave scores of shape \(3,\); one for each of"):
        check_scorer(Short(), DATA, only=["known user"])


def test_the_checks_run_in_one_go():
    check_recommender(Subject(sr.TransductiveConformal, DATA), only=set(CHECKS) - SLOW)
