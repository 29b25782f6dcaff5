"""Measure each cell of docs/explanation/who-is-covered.md: kind of scorer × who is served."""

import numpy as np
import pytest

import surerec as sr
from surerec._words import DAY
from surerec.calibration import UserCalibration, profile_cases, window_cases
from surerec.errors import NotSupportedError
from surerec.measures import Query
from tests.calibration.test_declaration import Forgets, Memory, Silent

EPSILON = 0.2
NOISE = 0.04  # some 200 people with six items each


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=900, n_items=80, n_rows=18_000, random_state=6)


@pytest.fixture(scope="module")
def newcomers(films):
    return np.random.default_rng(1).permutation(films.n_users)[:250]


@pytest.fixture(scope="module")
def seen(films, newcomers):
    return films.without_users(newcomers)


def served(model, films, cases, *, known):
    """Measure what people miss of their future, and collect how what they are told begins."""
    lost, told = [], set()
    for case in range(len(cases)):
        history, future = (
            films.items.ids.gather(codes).to_list()
            for codes in (cases.known(case), cases.future(case))
        )
        user = films.users[int(cases.users[case])] if known else None
        picks = model.recommend(user, history=history, significance=EPSILON)
        lost.append(1 - len(set(picks.items) & set(future)) / len(future))
        told.add(str(picks.guarantee).split(":")[0][:16])
    assert len(lost) > 90
    return np.mean(lost), told


def by_who(model, films, seen, newcomers):
    """Return, for each kind of person, the share missed and what they are told."""
    cases = profile_cases(films, 0.4)
    calibrating = set(seen.users.ids.gather(model.calibration_.users).to_list())
    ids = films.users.ids.gather(cases.users).to_list()
    is_new = np.isin(cases.users, newcomers)
    calibrates = np.array([i in calibrating for i in ids])
    groups = {"new": is_new, "calibrates": calibrates, "known": ~is_new & ~calibrates}
    return {
        who: served(model, films, cases[some], known=who != "new") for who, some in groups.items()
    }


@pytest.mark.parametrize("recipe", ["CM12", "NCM16", Forgets, "learned"])
def test_what_leaves_users_out_keeps_its_promise_to_everybody(films, seen, newcomers, recipe):
    model = sr.PopulationConformal(recipe, n_calibration=330).fit(seen)
    for who, (lost, told) in by_who(model, films, seen, newcomers).items():
        assert lost == pytest.approx(EPSILON, abs=NOISE), who
        assert told == {"Of the last 40% "}, who


def test_what_cannot_leave_users_out_keeps_it_to_whoever_it_has_not_seen(films, seen, newcomers):
    found = by_who(sr.PopulationConformal(Memory).fit(seen), films, seen, newcomers)
    for who in ("new", "calibrates"):
        assert found[who][0] == pytest.approx(EPSILON, abs=NOISE), who
        assert found[who][1] == {"Of the last 40% "}, who
    lost, told = found["known"]
    assert lost < EPSILON - 2 * NOISE  # it knows their futures: a promise would mean nothing
    assert told == {"No guarantee"}


@pytest.mark.filterwarnings("ignore::surerec.errors.StaleModelWarning")
def test_fitted_again_after_a_window_it_keeps_it_to_newcomers_only(films):
    newcomers = np.arange(0, films.n_users, 2)  # half of all: not everybody is there in a window
    end = int(films.times.max()) + 1
    day = end - 200 * DAY
    model = sr.PopulationConformal(Memory, window=200, threshold="rank")
    model.fit(films.without_users(newcomers).until(day))
    cases = window_cases(films, day, end, 0.4)
    lost, told = served(model, films, cases[np.isin(cases.users, newcomers)], known=False)
    assert lost == pytest.approx(EPSILON, abs=2 * NOISE)  # the calendar has moved on by a window
    assert told == {"Of items new to "}
    others = cases[~np.isin(cases.users, newcomers)]
    assert served(model, films, others, known=True)[1] == {"No guarantee"}


@pytest.mark.parametrize("kind", [Memory, Silent])
def test_what_comes_fitted_or_says_nothing_would_break_it(films, seen, newcomers, kind):
    model = sr.PopulationConformal(kind(sr.count_precedence(seen)), n_calibration=330).fit(seen)
    found = by_who(model, films, seen, newcomers)
    assert found["new"][0] > EPSILON + 2 * NOISE  # which is why nobody is promised anything
    assert all(told == {"No guarantee"} for _, told in found.values())


@pytest.mark.parametrize(
    "settings", [{"threshold": "score"}, {"threshold": "rank"}, {"groups": 2}, {"guarantee": "hit"}]
)
def test_the_level_of_an_item_is_that_of_an_assessment(settings) -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, random_state=3)
    model = sr.PopulationConformal("CM12", **settings).fit(films).model_
    for user in range(0, 120, 7):
        query = Query.of_user(films, user)
        some = model.candidates(query)[:9].tolist()
        levels = model.assess(query).levels_below[:9].tolist()
        assert [model.level(query, item) for item in some] == levels


def test_a_promise_of_precision_has_no_levels() -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, random_state=3)
    model = sr.PopulationConformal("CM12", guarantee="precision").fit(films)
    with pytest.raises(NotSupportedError, match="no level"):
        model.model_.level(Query.of_user(films, 1), 2)


@pytest.fixture(scope="module")
def statistics():
    return sr.count_precedence(
        sr.datasets.synthetic(n_users=300, n_items=90, n_rows=6000, random_state=3)
    )


SETTINGS = [
    {"measure": "CM12", "threshold": "score"},
    {"measure": "CM12", "threshold": "rank"},
    {"measure": "CM12", "threshold": "score", "groups": 3},
    {"measure": "CM3", "threshold": "score", "guarantee": "hit", "horizon": 5},
    {"measure": "NCM14", "threshold": "score"},  # values below 0 are shifted
    {"measure": "CM4", "threshold": "score", "n_calibration": 15},  # without probabilities
]


@pytest.mark.parametrize("settings", SETTINGS, ids=str)
@pytest.mark.parametrize("k", [1, 20, 70, None])  # kept in order as found, and sorted
@pytest.mark.parametrize("confidence", [0.5, 0.9])
def test_as_one_by_one(statistics, monkeypatch, settings, k, confidence):
    model = sr.PopulationConformal(**settings).fit(statistics)
    fast = model.recommend_many(confidence=confidence, k=k)
    new = {"ann": model.items_.ids[:6].to_list(), "bob": model.items_.ids[30:33].to_list()}
    fast_new = model.recommend_many(histories=new, confidence=confidence, k=k)
    monkeypatch.setattr(UserCalibration, "best_of_many", lambda *_: None)
    assert fast.equals(model.recommend_many(confidence=confidence, k=k))
    assert fast_new.equals(model.recommend_many(histories=new, confidence=confidence, k=k))
    assert fast.height
    assert fast["user_id"].n_unique() > 100
