"""Groups of wrapped models and of temporal splits calibrate on held-out interactions."""

import numpy as np
import pytest

import surerec as sr
from surerec.calibration import profile_cases
from tests.contracts.support import Refitted


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=1500, n_items=80, n_rows=30_000, random_state=4)


@pytest.fixture(scope="module")
def halves(films):
    half = np.arange(films.n_users) % 2 == 0
    return films.without_users(np.flatnonzero(~half)), films.without_users(np.flatnonzero(half))


@pytest.fixture(scope="module")
def wrapped(halves):
    return sr.wrap(Refitted()).fit(halves[0]).calibrate_groups(2)


@pytest.mark.parametrize("confidence", [0.7, 0.9])
def test_groups_of_new_users_get_the_recall_that_is_guaranteed(wrapped, halves, confidence):
    cases = profile_cases(halves[1], 0.4)
    ids = halves[1].items.ids
    recalls = []
    for first in range(0, len(cases) - 1, 2):
        pair = (first, first + 1)
        found = wrapped.recommend(
            group=[ids.gather(cases.known(case)).to_list() for case in pair], confidence=confidence
        )
        assert found.covered
        known = np.concatenate([cases.known(case) for case in pair])
        consumed = np.unique(np.concatenate([cases.future(case) for case in pair]))
        consumed = set(ids.gather(np.setdiff1d(consumed, known)).to_list())
        if consumed:
            recalls.append(len(consumed & set(found.items)) / len(consumed))
    error = np.std(recalls) / np.sqrt(len(recalls))
    assert np.mean(recalls) > confidence - 3 * np.sqrt(2) * error
    assert np.mean(recalls) < confidence + 0.1


def test_groups_of_a_temporal_split_calibrate_on_its_window(films):
    model = sr.PopulationConformal("CM12", window=90).fit(films).calibrate_groups(2)
    (calibration,) = model.group_calibrations_
    last = int(films.times.max())
    begin, end = calibration.outcomes.period.tolist()
    assert last - 90 * 86_400 * 10**6 <= begin < end <= last
    long = films.users.ids.gather(np.flatnonzero(np.diff(films.offsets) >= 10)).to_list()
    found = model.recommend(group=long[:2], confidence=0.7)
    assert found.covered
    assert "each member's items of the next 90 days" in str(found.guarantee)


def test_a_saved_wrapped_model_keeps_its_groups_and_refuses_other_sizes(wrapped, halves, tmp_path):
    wrapped.save(tmp_path / "films")
    loaded = sr.load(tmp_path / "films", scorer=wrapped.wrapped_)
    ids = halves[1].items.ids.to_list()
    group = [ids[:8], ids[5:13]]
    alone = wrapped.recommend(group=group, confidence=0.8)
    again = loaded.recommend(group=group, confidence=0.8)
    assert (again.items, str(again.guarantee)) == (alone.items, str(alone.guarantee))
    with pytest.raises(sr.InputError, match="calibrate_groups before saving it"):
        loaded.recommend(group=[*group, ids[20:28]], confidence=0.8)


def test_the_ranks_of_calibration_groups_are_those_of_the_wrapped_model(wrapped):
    outcomes = wrapped.group_calibrations_[0].outcomes
    profiles, model = wrapped.model_.profiles(), wrapped.wrapped_
    cases = profile_cases(profiles, 0.4)
    known = {int(user): cases.known(place) for place, user in enumerate(cases.users)}
    futures = {int(user): cases.future(place) for place, user in enumerate(cases.users)}
    scores = np.array(model.counts)[: profiles.n_items]
    order = np.lexsort((wrapped.statistics_.popularity, -scores))
    for group in range(20):
        members = outcomes.users[outcomes.offsets[group] : outcomes.offsets[group + 1]].tolist()
        seen = np.unique(np.concatenate([known[user] for user in members]))
        ranking = [item for item in order.tolist() if item not in seen and scores[item] > 0]
        rows = outcomes.owners == group
        expected = [
            float(ranking.index(item)) + 1 if item in ranking else np.inf
            for user in members
            for item in futures[user].tolist()
            if item not in seen
        ]
        assert outcomes.ranks[rows].tolist() == expected
