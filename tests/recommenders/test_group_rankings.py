import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import profile_cases
from surerec.measures import MeasureScorer, Query, as_measure
from surerec.recommenders import (
    AGGREGATIONS,
    GROUP_GUARANTEE_KINDS,
    Group,
    GroupOutcomes,
    find_aggregation,
    form_groups,
    observe_groups,
    values_of,
)
from tests.recommenders.small_profiles import read, some_rows

N_ITEMS = 8


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=240, n_items=60, n_rows=6000, random_state=4)


@pytest.fixture(scope="module")
def statistics(films):
    return sr.count_precedence(films)


def observed(statistics, measure, size, formed="random", by="average", n=None):
    """Return calibration groups, their cases, and where what they consumed next is ranked."""
    cases, scorer = profile_cases(statistics.interactions, 0.4), as_measure(measure).fit(statistics)
    groups = form_groups(cases, size, formed, np.zeros(len(cases)), random_state=1)[:n]
    return groups, cases, observe_groups(scorer, statistics, cases, groups, AGGREGATIONS[by])


@pytest.mark.parametrize("formed", ["random", "similar"])
def test_groups_are_disjoint_within_folds_and_know_no_future(films, formed):
    cases = profile_cases(films, 0.4)
    folds = np.arange(len(cases)) % 2
    groups = form_groups(cases, 3, formed, folds, random_state=1)
    members = np.concatenate(groups)
    assert len(np.unique(members)) == len(members)
    assert len(cases) - len(members) < 2 * 3
    assert all(len(group) == 3 and len(set(folds[group])) == 1 for group in groups)
    # Other futures, the same groups.
    items = films.item_codes.copy()
    later = cases.future_rows()
    items[later] = np.random.default_rng(0).permutation(items[later])
    other = sr.Interactions(films.users, films.items, films.offsets, items, films.times)
    again = form_groups(profile_cases(other, 0.4), 3, formed, folds, random_state=1)
    assert [group.tolist() for group in again] == [group.tolist() for group in groups]


def test_similar_groups_are_more_alike_than_random_ones(films):
    cases = profile_cases(films, 0.4)

    def overlap(formed):
        groups = form_groups(cases, 2, formed, np.zeros(len(cases)), random_state=0)
        pairs = [(set(cases.known(a)), set(cases.known(b))) for a, b in groups]
        return np.mean([len(a & b) / np.sqrt(len(a) * len(b)) for a, b in pairs])

    assert overlap("similar") > 1.2 * overlap("random")


def test_outcomes_are_those_of_the_definition(films, statistics):
    """Ranks are among items new to every member, of the members' new held-out items."""
    groups, cases, found = observed(statistics, "CM4", 3, by="most-pleasure", n=4)
    for number, group in enumerate(groups):
        users = cases.users[group]
        others = sr.count_precedence(films.without_users(users))
        known = set(np.concatenate([cases.known(case) for case in group]).tolist())
        outside = [item for item in np.flatnonzero(others.support).tolist() if item not in known]
        popularity = statistics.popularity_without(users.tolist())
        best = {}
        for place, case in enumerate(group):
            counts = sum(others.followers(int(item)).astype(int) for item in cases.known(case))
            order = sorted(outside, key=lambda item: (-counts[item], popularity[item]))
            for item in outside:
                best[item] = [*best.get(item, []), order.index(item) + 1]
            mine = (found.owners == number) & (found.places == place)
            consumed = [item for item in cases.future(case).tolist() if item not in known]
            assert found.items[mine].tolist() == consumed
            assert found.own_ranks[mine].tolist() == [best[item][-1] for item in consumed]
        mean = {item: -sum(np.log(best[item])) for item in outside}
        ranking = sorted(
            outside,
            key=lambda item: (min(best[item]), -mean[item].round(9), popularity[item]),
        )
        here = found.owners == number
        ranks = [ranking.index(item) + 1 for item in found.items[here]]
        assert found.ranks[here].tolist() == ranks
        assert found.n_candidates[number] == len(outside)


@st.composite
def outcomes(draw):
    """Groups of two to four whose members consumed some of eight items, one of them unknown."""
    sizes = draw(st.lists(st.integers(2, 4), min_size=1, max_size=5))
    rows, order = [], []
    for group, size in enumerate(sizes):
        order = draw(st.permutations(range(1, N_ITEMS + 1)))
        for member in range(size):
            for item in draw(st.sets(st.integers(0, N_ITEMS - 1), max_size=4)):
                rank = np.inf if item == 0 else float(order[item])
                rows.append((group, member, item, rank))
    columns = list(zip(*rows, strict=True)) or [(), (), (), ()]
    owners, places, items = (np.array(column, dtype=np.int64) for column in columns[:3])
    ranks = np.array(columns[3], dtype=np.float64)
    offsets = np.concatenate(([0], np.cumsum(sizes)))
    n = np.full(len(sizes), N_ITEMS)
    users = np.arange(offsets[-1])
    return GroupOutcomes(offsets, users, owners, places, items, ranks, ranks, n, np.zeros(2, int))


def slow_loss(name, found, group, threshold):
    """What a group loses with the set of its best `cut` items; None if nothing of it counts."""
    consumed = {}
    for owner, member, item, rank in zip(
        found.owners, found.places, found.items, found.ranks, strict=True
    ):
        if owner == group:
            consumed.setdefault(int(member), {})[int(item)] = rank
    size = found.sizes[group]
    if name == "worst":
        shares = [
            np.mean([rank > threshold for rank in mine.values()]) for mine in consumed.values()
        ]
        return max(shares, default=None)
    needed = {"any": 1, "hit-any": 1, "most": size // 2 + 1, "all": size, "hit-all": size}[name]
    every = {item: rank for mine in consumed.values() for item, rank in mine.items()}
    consumers = {item: sum(item in mine for mine in consumed.values()) for item in every}
    ranks = [rank for item, rank in every.items() if consumers[item] >= needed]
    if not ranks:
        return None
    left_out = [rank > threshold for rank in ranks]
    return float(all(left_out)) if name.startswith("hit") else float(np.mean(left_out))


@given(outcomes())
def test_curves_are_the_losses_of_the_definition(found):
    for name, guarantee in GROUP_GUARANTEE_KINDS.items():
        curve, groups = guarantee.curve_of(found)
        at_none = [slow_loss(name, found, group, 0) for group in range(len(found))]
        assert groups.tolist() == [g for g, loss in enumerate(at_none) if loss is not None]
        assert curve.n_users == len(groups)
        for threshold in (0.0, 1.0, 3.0, 8.0):
            expected = [slow_loss(name, found, group, threshold) for group in groups]
            left = curve.levels([threshold + 0.5])[0] * (len(groups) + 1) - 1
            assert left == pytest.approx(sum(expected), abs=1e-9)


@pytest.mark.parametrize("formed", ["random", "similar"])
@pytest.mark.parametrize("name", ["any", "all", "worst", "hit-any"])
def test_the_observed_loss_is_the_nominal_one_over_splits(statistics, formed, name):
    curve, units = GROUP_GUARANTEE_KINDS[name].curve_of(observed(statistics, "CM12", 2, formed)[2])
    rng, epsilon, lost = np.random.default_rng(0), 0.3, []
    n = len(units) // 2
    for _ in range(200):
        half = np.isin(np.arange(len(units)), rng.permutation(len(units))[:n])
        threshold = curve.of_owners(half).threshold(epsilon)
        rest = curve.of_owners(~half)
        lost.append(rest.losses[rest.entries > threshold].sum() / rest.n_users)
    assert np.mean(lost) <= epsilon + 0.02
    if name != "hit-any":  # where the best item alone is a hit for more than 1 − ε of the groups
        assert np.mean(lost) >= epsilon - 2 / (n + 1) - 0.02


@given(some_rows, st.sampled_from(["order", "strict"]), st.data())
def test_a_group_is_scored_as_if_counted_without_it(rows, ties, data):
    interactions = read(rows)
    codes = st.integers(0, interactions.n_users - 1)
    users = data.draw(st.lists(codes, min_size=1, max_size=4, unique=True))
    group = Group(tuple(Query.of_user(interactions, user) for user in users))
    counts = sr.count_precedence(interactions, ties=ties)
    others = sr.count_precedence(interactions.without_users(np.array(users)), ties=ties)
    others.popularity = counts.popularity_without(users)
    candidates = counts.items_outside(group.known, users)
    np.testing.assert_array_equal(candidates, others.items_outside(group.known))
    name = data.draw(st.sampled_from(["CM1", "CM4", "CM11", "CM12", "NCM14"]))
    found = group.ranks(MeasureScorer(counts, name), counts, candidates)
    strangers = Group(tuple(Query(known_to(others, q.history)) for q in group.members))
    expected = strangers.ranks(MeasureScorer(others, name), others, candidates)
    np.testing.assert_array_equal(found, expected)


def known_to(others, history):
    """What a new user's history comes to: items without other consumers are dropped."""
    known = history[others.support[history] > 0]
    return known if len(known) else history


@pytest.mark.parametrize(
    ("name", "expected"),
    [
        ("average", [0.5, 0.5, 1 - np.log(9) / np.log(16), 0.5]),
        ("least-misery", [0, 0.5, 1 - np.log(3) / np.log(4), 0]),
        ("most-pleasure", [1, 0.5, 1 - np.log(3) / np.log(4), 1]),
    ],
)
def test_aggregations_by_hand(name, expected):
    values = values_of(np.array([[1.0, 2, 3, 4], [4.0, 2, 3, 1]]), 4)
    np.testing.assert_allclose(find_aggregation(name).score(values), expected, atol=1e-12)
