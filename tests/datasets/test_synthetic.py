import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.datasets import _kernels as kernels
from surerec.datasets._synthetic import _profiles, _Settings, _share_out, synthetic
from surerec.errors import InputError

SECOND = 1_000_000


def make(n_users=300, n_items=200, n_rows=9000, **more):
    return _profiles(_Settings(n_users, n_items, n_rows, **more))


def users_of(made):
    return np.repeat(np.arange(made.offsets.size - 1), np.diff(made.offsets))


def positions(made):
    """Give each user's position of each item, by popularity rank; -1 where it was not taken."""
    label = made.catalogue.label
    rank = np.empty(label.size, np.int64)
    rank[label] = np.arange(label.size)
    where = np.full((made.offsets.size - 1, label.size), -1)
    users = users_of(made)
    where[users, rank[made.items]] = np.arange(made.items.size) - made.offsets[users]
    return where


def precedence(made, earlier, later):
    """Count the users who took `earlier` before `later`, summed over pairs of ranks."""
    where = positions(made)
    first, second = where[:, earlier], where[:, later]
    return int(((first >= 0) & (first < second)).sum())


def ranks_of(made, kind):
    return np.flatnonzero(made.catalogue.kind == kind)


def assert_sound(made, n_users, n_items, n_rows):
    assert made.offsets[0] == 0
    assert made.offsets.size == n_users + 1
    assert made.offsets[-1] == made.items.size == made.times.size == n_rows
    assert np.diff(made.offsets).min() >= 1
    assert made.items.dtype == np.uint32
    assert made.items.max() < n_items
    pairs = users_of(made) * n_items + made.items
    assert np.unique(pairs).size == n_rows
    assert (made.times % SECOND == 0).all()


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_any_settings_give_exactly_the_rows_each_user_item_once_in_time_order(data):
    n_users = data.draw(st.integers(1, 12))
    n_items = data.draw(st.integers(1, 30))
    n_rows = data.draw(st.integers(n_users, n_users * n_items))
    share = st.sampled_from([0.0, 0.3, 1.0])
    more = {
        "popularity": data.draw(st.sampled_from([0.0, 1.0, 10.0])),
        "length_spread": data.draw(st.sampled_from([0.0, 1.0, 10.0])),
        "sequels": data.draw(st.sampled_from([0.0, 0.3, 0.5])),
        "taste": data.draw(share),
        "n_genres": data.draw(st.integers(1, 40)),
        "drift": data.draw(share),
        "ties": data.draw(share),
        "days": data.draw(st.integers(1, 400)),
        "seed": data.draw(st.integers(0, 2**64 - 1)),
    }
    made = make(n_users, n_items, n_rows, **more)
    assert_sound(made, n_users, n_items, n_rows)
    gaps = np.diff(made.times)[np.diff(users_of(made)) == 0]
    assert (gaps >= (0 if more["ties"] else SECOND)).all()
    calendar = made.times // SECOND - kernels.FIRST_SECOND
    assert 0 <= calendar.min() <= calendar.max() < more["days"] * 86_400


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_threads_change_nothing(monkeypatch, drift):
    results = []
    for n_threads in ("1", "2", "3"):
        monkeypatch.setenv("SUREREC_THREADS", n_threads)
        results.append(make(drift=drift, ties=0.1, longest=150))
    for one, other in pairwise(results):
        for name in ("offsets", "items", "times"):
            np.testing.assert_array_equal(getattr(one, name), getattr(other, name))


def test_the_same_seed_gives_the_same_and_another_seed_another():
    one, same, other = make(seed=1), make(seed=1), make(seed=2)
    np.testing.assert_array_equal(one.items, same.items)
    np.testing.assert_array_equal(one.times, same.times)
    assert (one.offsets != other.offsets).any()
    assert (one.items != other.items).mean() > 0.9
    assert (one.catalogue.label != other.catalogue.label).mean() > 0.9


def test_splitmix64_is_the_published_one():
    # The first outputs of splitmix64 from state 0, as in Vigna's reference program.
    state = np.zeros(1, np.uint64)
    for expected in (0xE220A8397B1DCDAF, 0x6E789E6AA1B965F4, 0x06C45D188009454F):
        assert kernels.uniform(state) == ((expected >> 12) + 0.5) * 2.0**-52


def test_alias_tables_give_back_the_weights():
    weight = np.array([1.0, 2.0, 5.0, 4.0, 1.0, 1.0, 2.0])
    start = np.array([0, 3, 3, 7])
    mass = np.array([8.0, 0.0, 8.0])
    chance, alias = np.empty(7), np.empty(7, np.uint32)
    kernels.alias_tables(weight, start, mass, chance, alias)
    for shelf, first, last in ((0, 0, 3), (2, 3, 7)):
        kept = chance[first:last].copy()
        np.add.at(kept, alias[first:last], 1.0 - chance[first:last])
        np.testing.assert_allclose(kept / (last - first), weight[first:last] / mass[shelf])


@pytest.mark.parametrize("popularity", [0.5, 1.0])
@pytest.mark.parametrize("taste", [0.0, 0.5])
def test_popularity_is_zipf(popularity, taste):
    made = make(40_000, 3000, 200_000, popularity=popularity, taste=taste)
    support = np.bincount(made.items, minlength=3000)[made.catalogue.label]
    # Bins of ranks; the head is left out, where no user can take an item twice.
    edges = np.geomspace(30, 3000, 12).astype(int)
    mean = [support[a:b].mean() for a, b in pairwise(edges)]
    middle = [np.arange(a + 1, b + 1).mean() for a, b in pairwise(edges)]
    slope = np.polyfit(np.log(middle), np.log(mean), 1)[0]
    assert slope == pytest.approx(-popularity, abs=0.1)


def test_shares_are_exact_where_the_limits_bind():
    # Worked by hand: 100 is cut to 6; 1 : 2 of the other 5 are 1.67 and 3.33.
    np.testing.assert_array_equal(_share_out(11, np.log([100.0, 1.0, 2.0]), 6), [6, 2, 3])
    np.testing.assert_array_equal(_share_out(3, np.log([100.0, 1.0, 2.0]), 6), [1, 1, 1])
    np.testing.assert_array_equal(_share_out(18, np.log([100.0, 1.0, 2.0]), 6), [6, 6, 6])


@pytest.mark.parametrize("drift", [0.0, 0.5])
@pytest.mark.parametrize("n_rows", [60_000, 300_000])  # drawn one by one, drawn as a race
def test_sequels_follow_originals_and_singles_do_not(n_rows, drift):
    made = make(2000, 300, n_rows, length_spread=0.1, drift=drift)
    originals = ranks_of(made, kernels.ORIGINAL)
    assert originals.size == 90
    before = precedence(made, originals, originals + 1)
    after = precedence(made, originals + 1, originals)
    assert before > 5 * after

    singles = ranks_of(made, kernels.SINGLE)
    singles = singles[singles % 2 == 0]  # each with a neighbour as popular
    before = precedence(made, singles, singles + 1)
    after = precedence(made, singles + 1, singles)
    assert abs(before - after) < 4 * math.sqrt(before + after)


@pytest.mark.parametrize("n_rows", [60_000, 300_000])  # drawn one by one, drawn as a race
def test_without_sequels_and_drift_past_and_future_are_alike(n_rows):
    where = positions(make(2000, 300, n_rows, length_spread=0.0, sequels=0.0))
    length = n_rows // 2000
    for head in (where[:, :10], where[:, 10:100], where[:, 100:]):
        place = (head[head >= 0] + 0.5) / length
        assert place.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * place.size))


def movement(made, n_items):
    """Give the total-variation distance between what was popular early and late."""
    early = made.times < np.quantile(made.times, 0.3)
    late = made.times > np.quantile(made.times, 0.7)
    shares = [
        np.bincount(made.items[part], minlength=n_items) / part.sum() for part in (early, late)
    ]
    return np.abs(shares[0] - shares[1]).sum() / 2


@pytest.mark.parametrize("n_rows", [80_000, 400_000])  # drawn one by one, drawn as a race
def test_drift_moves_popularity_and_its_absence_does_not(n_rows):
    still, some, much = (
        movement(make(4000, 200, n_rows, length_spread=0.1, sequels=0.0, drift=drift), 200)
        for drift in (0.0, 0.5, 1.0)
    )
    assert still < 0.06
    assert 2 * still < some < 0.9 * much


@pytest.mark.parametrize("ties", [0.0, 0.25, 1.0])
def test_share_of_ties(ties):
    made = make(1000, 200, 50_000, ties=ties)
    within = np.diff(users_of(made)) == 0
    assert (np.diff(made.times)[within] == 0).mean() == pytest.approx(ties, abs=0.01)


def test_interactions_with_ids_and_titles():
    ratings = synthetic(100, 60, 2000, sequels=0.5, seed=3)
    again = synthetic(100, 60, 2000, sequels=0.5, seed=3)
    assert (ratings.n_users, ratings.n_rows) == (100, 2000)
    assert ratings.n_items <= 60
    profile = ratings.profile(1)
    assert profile.equals(again.profile(1))
    assert profile["item_id"].is_between(1, 60).all()

    taken = np.concatenate([ratings.profile(user)["title"].to_numpy() for user in range(1, 101)])
    titles = set(taken)
    sequels = {title for title in titles if title.endswith(", part 2")}
    assert len(sequels) == 30
    assert {title.removesuffix(", part 2") for title in sequels} | sequels == titles
    for item, title in zip(profile["item_id"], profile["title"], strict=True):
        assert title.endswith(", part 2") or title == f"Story {item}"


@pytest.mark.parametrize(
    ("more", "sentence"),
    [
        ({"n_users": 0}, "n_users is 0"),
        ({"n_users": 2.5}, "n_users is 2.5"),
        ({"n_users": True}, "n_users is True"),
        ({"n_items": -1}, "n_items is -1"),
        ({"n_rows": 99}, "n_rows is 99; it must be from 100 to 5000"),
        ({"n_rows": 5001}, "n_rows is 5001; it must be from 100 to 5000"),
        ({"popularity": -0.1}, "popularity is -0.1"),
        ({"popularity": math.nan}, "popularity is nan"),
        ({"popularity": "steep"}, "popularity is 'steep'"),
        ({"length_spread": math.inf}, "length_spread is inf"),
        ({"sequels": 0.6}, "sequels is 0.6; it must be from 0 to 0.5"),
        ({"taste": 1.1}, "taste is 1.1"),
        ({"n_genres": 0}, "n_genres is 0"),
        ({"drift": -1}, "drift is -1"),
        ({"ties": 2}, "ties is 2"),
        ({"longest": 9}, "longest is 9; it must be from 10 to 50"),
        ({"longest": 51}, "longest is 51; it must be from 10 to 50"),
        ({"days": 0}, "days is 0"),
        ({"seed": -1}, "seed is -1"),
        ({"seed": None}, "seed is None"),
    ],
)
def test_bad_arguments_are_named(more, sentence):
    with pytest.raises(InputError) as caught:
        synthetic(**{"n_users": 100, "n_items": 50, "n_rows": 1000} | more)
    assert str(caught.value).startswith(sentence)


def test_a_calendar_too_short_for_the_longest_profile():
    with pytest.raises(InputError, match="days is 1; it must be from 2"):
        make(2, 90_000, 90_001, longest=90_000, days=1)
