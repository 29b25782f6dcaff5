"""Each cell of the table in docs/explanation/who-is-covered.md, measured."""

import numpy as np
import pytest

import surerec as sr
from surerec._words import DAY
from surerec.calibration import UserCalibration, profile_cases, window_cases
from surerec.errors import NotSupportedError
from surerec.measures import Query
from tests.calibration.test_declaration import LeavesOut, Memory, Undeclared
from tests.served import served_cases

EPSILON = 0.2
HOLDS = "Recall of at lea"
NOISE = 0.04  # about 200 users with six items each


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=900, n_items=80, n_rows=18_000, random_state=6)


@pytest.fixture(scope="module")
def new_users(films):
    return np.random.default_rng(1).permutation(films.n_users)[:250]


@pytest.fixture(scope="module")
def seen(films, new_users):
    return films.without_users(new_users)


def losses(model, cases, *asked_by):
    """Return the mean loss of users, and the beginnings of their guarantees."""
    found = list(served_cases(model, cases, "history", *asked_by, significance=EPSILON))
    assert len(found) > 90
    sentences = {str(picks.guarantee).split(":")[0][:16] for picks, _ in found}
    return np.mean([lost for _, lost in found]), sentences


def by_who(model, films, seen, new_users):
    """Return the mean loss and the guarantees for each kind of user."""
    cases = profile_cases(films, 0.4)
    calibrating = set(seen.users.ids.gather(model.calibration_.users).to_list())
    ids = films.users.ids.gather(cases.users).to_list()
    is_new = np.isin(cases.users, new_users)
    calibrates = np.array([i in calibrating for i in ids])
    return {
        "new": losses(model, cases[is_new]),
        "calibrates": losses(model, cases[calibrates], "user"),
        "known": losses(model, cases[~is_new & ~calibrates], "user"),
    }


@pytest.mark.parametrize("measure", ["CM12", "NCM16", LeavesOut, "learned"])
def test_a_scorer_that_leaves_users_out_covers_all_users(films, seen, new_users, measure):
    model = sr.PopulationConformal(measure, n_calibration=330).fit(seen)
    for who, (lost, sentences) in by_who(model, films, seen, new_users).items():
        assert lost == pytest.approx(EPSILON, abs=NOISE), who
        assert sentences == {HOLDS}, who


def test_a_scorer_that_cannot_leave_users_out_covers_unseen_users(films, seen, new_users):
    found = by_who(sr.PopulationConformal(Memory).fit(seen), films, seen, new_users)
    for who in ("new", "calibrates"):
        assert found[who][0] == pytest.approx(EPSILON, abs=NOISE), who
        assert found[who][1] == {HOLDS}, who
    lost, sentences = found["known"]
    assert lost < EPSILON - 2 * NOISE  # it knows their futures, so a guarantee would mean nothing
    assert sentences == {"No guarantee"}


@pytest.mark.filterwarnings("ignore::surerec.errors.StaleModelWarning")
def test_refitted_after_a_window_it_covers_new_users_only(films):
    new_users = np.arange(0, films.n_users, 2)  # half of all, as not all users are in a window
    end = int(films.times.max()) + 1
    day = end - 200 * DAY
    model = sr.PopulationConformal(Memory, window=200, threshold="rank")
    model.fit(films.without_users(new_users).until(day))
    cases = window_cases(films, day, end, 0.4)
    lost, sentences = losses(model, cases[np.isin(cases.users, new_users)])
    assert lost == pytest.approx(EPSILON, abs=2 * NOISE)  # one window later
    assert sentences == {HOLDS}
    others = cases[~np.isin(cases.users, new_users)]
    assert losses(model, others, "user")[1] == {"No guarantee"}


@pytest.mark.parametrize("kind", [Memory, Undeclared])
def test_fitted_or_undeclared_scorers_cover_no_user(films, seen, new_users, kind):
    model = sr.PopulationConformal(kind(sr.count_precedence(seen)), n_calibration=330).fit(seen)
    found = by_who(model, films, seen, new_users)
    assert found["new"][0] > EPSILON + 2 * NOISE  # why no user is covered
    assert all(sentences == {"No guarantee"} for _, sentences in found.values())


@pytest.mark.parametrize(
    "settings",
    [{"threshold": "score"}, {"threshold": "rank"}, {"segments": 2}, {"guarantee": "hit"}],
)
def test_the_level_of_an_item_equals_that_of_an_assessment(statistics, settings):
    model = sr.PopulationConformal("CM12", **settings).fit(statistics).model_
    for user in range(0, 300, 17):
        query = Query.of_user(statistics.interactions, user)
        some = model.candidates(query)[:9].tolist()
        levels = model.assess(query).levels_below[:9].tolist()
        assert [model.level(query, item) for item in some] == levels


def test_a_precision_guarantee_has_no_levels(statistics):
    model = sr.PopulationConformal("CM12", guarantee="precision").fit(statistics)
    with pytest.raises(NotSupportedError, match=r"has no entry confidences\. Use recommend"):
        model.model_.level(Query.of_user(statistics.interactions, 1), 2)


@pytest.fixture(scope="module")
def statistics():
    return sr.count_precedence(
        sr.datasets.synthetic(n_users=300, n_items=90, n_rows=6000, random_state=3)
    )


SETTINGS = [
    {"measure": "CM12", "threshold": "score"},
    {"measure": "CM12", "threshold": "rank"},
    {"measure": "CM12", "threshold": "score", "segments": 3},
    {"measure": "CM3", "threshold": "score", "guarantee": "hit", "horizon": 5},
    {"measure": "NCM14", "threshold": "score"},  # values below 0 are shifted
    {"measure": "CM4", "threshold": "score", "n_calibration": 15},  # without probabilities
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("k", [1, 20, 70, None])  # kept in order, and sorted
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_batches_equal_single_users(statistics, monkeypatch, settings, k, confidence):
    model = sr.PopulationConformal(**settings).fit(statistics)
    fast = model.recommend_many(confidence=confidence, k=k)
    new = {"ann": model.items_.ids[:6].to_list(), "bob": model.items_.ids[30:33].to_list()}
    fast_new = model.recommend_many(histories=new, confidence=confidence, k=k)
    monkeypatch.setattr(UserCalibration, "best_of_many", lambda *_: None)
    assert fast.equals(model.recommend_many(confidence=confidence, k=k))
    assert fast_new.equals(model.recommend_many(histories=new, confidence=confidence, k=k))
    assert fast.height
    assert fast["user_id"].n_unique() > 100
