"""Probabilities, precision and lists beside groups, histories and newer data."""

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import ItemChances
from surerec.measures import State


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=600, n_items=80, n_rows=18_000, seed=2)


@pytest.fixture(scope="module")
def country(films):
    return {user: "AT" if user % 3 else "DE" for user in films.users.ids}


@pytest.fixture(scope="module")
def precise(films, country):
    made = sr.PopulationConformal(promise="precision", groups="country")
    return made.fit(films, user_groups=country)


def test_each_country_is_tested_by_its_own_people(precise, films, country, tmp_path):
    history = films.items.ids[:8].to_list()
    users, chances = precise.calibration_.users, precise.model_.calibration.chances
    found = {}
    for label in ("AT", "DE"):
        picks = precise.recommend(history=history, segment=label, precision=0.15)
        assert f"over users with country '{label}' who are shown anything" in str(picks.guarantee)
        mine = np.array([country[films.users[int(user)]] == label for user in users])
        n_testing = int((mine & ~chances.chooses).sum())
        assert f"as the {n_testing:,} calibration users who tested it" in str(picks.guarantee)
        found[label] = picks.items
    nobody = precise.recommend(history=history, segment="CH", precision=0.15)
    assert str(nobody.guarantee).startswith("No guarantee: nobody of country 'CH' calibrated")
    assert nobody.to_frame()["probability"].is_not_nan().all()  # which is not by country
    precise.save(tmp_path / "model")
    back = sr.load(tmp_path / "model")
    assert back.recommend(history=history, segment="DE", precision=0.15).items == found["DE"]


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("weights", lambda a: a[:2]),
        ("weights", lambda a: a * np.nan),
        ("weights", lambda a: -1 - a),
        ("weights", lambda a: a.astype(np.float32)),
        ("edges", lambda _: np.float64(0)),
        ("edges", lambda a: a[::-1]),
        ("edges", lambda a: a[:-1]),
        ("edges", lambda a: np.full_like(a, np.inf)),
        ("counts", lambda a: a[:-1]),
        ("counts", lambda a: a.astype(np.int64)),
        ("hits", lambda a: a - 5),
        ("hits", lambda a: a + 10_000),
        ("chooses", lambda a: a.astype(np.int8)),
        ("chooses", np.ones_like),
        ("swayed", lambda a: a[:-1]),
        ("hit_ranks", lambda a: a[:, :2]),
        ("hit_ranks", lambda a: a * np.nan),
        ("hit_ranks", lambda a: -a),
        ("begin", lambda _: np.array(7)),
        ("begin", lambda a: a - 9),
    ],
)
def test_forged_chances_are_refused(precise, name, change):
    state = precise.model_.calibration.chances.state()
    arrays, n = state.arrays, len(precise.calibration_)
    assert ItemChances.from_state(state, n).bins.n == len(arrays["edges"]) + 1
    forged = state | State({name: np.asarray(change(arrays[name]))})
    with pytest.raises(ValueError, match=r"of probabilities|are not whole"):
        ItemChances.from_state(forged, n)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("list0_list_codes", lambda a: a + 80),
        ("list0_list_codes", lambda a: a[::-1]),
        ("list0_list_codes", lambda a: a[:0]),
        ("list0_list_codes", lambda a: a.astype(np.int32)),
        ("list0_users", lambda a: a + 600),
    ],
)
def test_forged_lists_are_refused(films, name, change):
    model = sr.PopulationConformal("CM12").fit(films, lists={"some": films.items.ids[:40]})
    state, statistics = model.model_.state(), model.statistics_
    assert [*model.restore(statistics, state).lists_] == ["some"]
    forged = state | State({name: change(state.arrays[name])})
    with pytest.raises(ValueError, match=r"of an item list|is not sorted|users of a calibration"):
        model.restore(statistics, forged)


def test_item_lists_need_names_of_their_own(films):
    lists = {"some": films.items.ids[:40], "more": films.items.ids[:50]}
    model = sr.PopulationConformal("CM12").fit(films, lists=lists)
    state = model.model_.state()
    assert state.texts["list1_list_name"] == "more"
    for name, why in (("some", "one name twice"), ("in stock", "cannot name a list")):
        forged = state | State(texts={"list1_list_name": name})
        with pytest.raises(ValueError, match=why):
            model.restore(model.statistics_, forged)
