"""Synthetic data: exact sizes, and the effect of each parameter."""

import hashlib
import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.cli import _options as opt
from surerec.datasets import synthetic, synthetic_of
from surerec.errors import InputError

SECOND = 1_000_000
FIRST = 1_577_836_800  # 2020-01-01


def users_of(made):
    return np.repeat(np.arange(made.n_users), np.diff(made.offsets))


def positions(made):
    """Return each user's position of each item; -1 if it was not consumed."""
    where = np.full((made.n_users, made.n_items), -1)
    users = users_of(made)
    where[users, made.item_codes] = np.arange(made.n_rows) - made.offsets[users]
    return where


def precedence(where, earlier, later):
    """Count the users who consumed `earlier` before `later`, summed over pairs of items."""
    first, second = where[:, earlier], where[:, later]
    return int(((first >= 0) & (first < second)).sum())


@given(data=st.data())
@settings(max_examples=60, deadline=None)
def test_sizes_and_times_are_exact_for_any_parameters(data):
    n_users = data.draw(st.integers(1, 12))
    n_items = data.draw(st.integers(1, 30))
    n_rows = data.draw(st.integers(n_users, n_users * n_items))
    shares = {"sequels": (0.0, 0.3, 0.5), "drift": (0.0, 0.3, 1.0), "ties": (0.0, 0.3, 1.0)}
    shares |= dict.fromkeys(("popularity", "length_spread"), (0.0, 1.0, 10.0))
    more = {name: data.draw(st.sampled_from(values)) for name, values in shares.items()}
    more |= {"days": data.draw(st.integers(1, 400))}
    more |= {"random_state": data.draw(st.integers(0, 2**64 - 1))}
    # Interactions raises for repeated items and histories that are empty or out of order.
    made = synthetic(n_users, n_items, n_rows, **more)
    assert (made.n_users, made.n_rows) == (n_users, n_rows)
    assert np.diff(made.offsets).min() >= 1
    assert made.items.ids.is_between(1, n_items).all()
    gaps = np.diff(made.times)[np.diff(users_of(made)) == 0]
    assert (gaps >= (0 if more["ties"] else SECOND)).all()
    assert (made.times % SECOND == 0).all()
    seconds = made.times // SECOND - FIRST
    assert 0 <= seconds.min() <= seconds.max() < more["days"] * 86_400


@pytest.mark.parametrize("drift", [0.0, 0.5])
def test_threads_do_not_change_the_result(monkeypatch, drift):
    results = []
    for n_threads in ("1", "2", "3"):
        monkeypatch.setenv("SUREREC_THREADS", n_threads)
        results.append(synthetic(300, 200, 9000, drift=drift, ties=0.1, longest=150))
    for one, other in pairwise(results):
        assert one.to_frame().equals(other.to_frame())
    assert np.diff(results[0].offsets).tolist().index(150) == 0


def test_the_random_state_determines_the_result():
    one, other = (synthetic(300, 200, 9000, random_state=each) for each in (1, 2))
    hashed = hashlib.sha256(one.item_codes.tobytes() + one.times.tobytes()).hexdigest()
    assert hashed[:16] == "6186a0464324bde2"
    assert (one.offsets != other.offsets).any()
    assert (one.items.ids.head(100) != other.items.ids.head(100)).mean() > 0.9


@pytest.mark.parametrize("popularity", [0.5, 1.0])
def test_popularity_is_zipf(popularity):
    made = synthetic(40_000, 3000, 200_000, popularity=popularity)
    support = np.bincount(made.item_codes)  # the most popular first
    # Bins of ranks without the head, where users have consumed most items already.
    edges = np.geomspace(30, 1500, 10).astype(int)
    mean = [support[a:b].mean() for a, b in pairwise(edges)]
    middle = [np.arange(a + 1, b + 1).mean() for a, b in pairwise(edges)]
    slope = np.polyfit(np.log(middle), np.log(mean), 1)[0]
    assert slope == pytest.approx(-popularity, abs=0.1)


@pytest.mark.parametrize("drift", [0.0, 0.5])
@pytest.mark.parametrize("n_rows", [60_000, 300_000])  # drawn one by one, drawn as a race
def test_only_sequels_follow_their_originals(n_rows, drift):
    made = synthetic(2000, 300, n_rows, length_spread=0.1, drift=drift)
    where, titles = positions(made), made.titles.to_list()
    sequels = [title for title in titles if title.endswith(", part 2")]
    assert len(sequels) == 90
    later = [titles.index(title) for title in sequels]
    originals = [titles.index(title.removesuffix(", part 2")) for title in sequels]
    assert precedence(where, originals, later) > 5 * precedence(where, later, originals)

    singles = np.setdiff1d(np.arange(made.n_items), later + originals)
    before = precedence(where, singles[:-1:2], singles[1::2])  # neighbours are as popular
    after = precedence(where, singles[1::2], singles[:-1:2])
    assert abs(before - after) < 4 * math.sqrt(before + after)


@pytest.mark.parametrize("n_rows", [60_000, 300_000])  # drawn one by one, drawn as a race
def test_past_and_future_are_exchangeable_without_sequels_and_drift(n_rows):
    where = positions(synthetic(2000, 300, n_rows, length_spread=0.0, sequels=0.0))
    length = n_rows // 2000
    for head in (where[:, :10], where[:, 10:100], where[:, 100:]):
        place = (head[head >= 0] + 0.5) / length
        assert place.mean() == pytest.approx(0.5, abs=4 / math.sqrt(12 * place.size))


def movement(drift, n_rows):
    """Return the total-variation distance between what was popular early and late."""
    made = synthetic(4000, 200, n_rows, length_spread=0.1, sequels=0.0, drift=drift)
    early = made.times < np.quantile(made.times, 0.3)
    late = made.times > np.quantile(made.times, 0.7)
    first, last = (np.bincount(made.item_codes[part], minlength=200) for part in (early, late))
    return np.abs(first / early.sum() - last / late.sum()).sum() / 2


@pytest.mark.parametrize("n_rows", [80_000, 400_000])  # drawn one by one, drawn as a race
def test_drift_changes_popularity(n_rows):
    still, some, much = (movement(drift, n_rows) for drift in (0.0, 0.5, 1.0))
    assert still < 0.06
    assert 2 * still < some < 0.9 * much


@pytest.mark.parametrize("ties", [0.0, 0.25, 1.0])
def test_share_of_ties(ties):
    made = synthetic(1000, 200, 50_000, ties=ties)
    within = np.diff(users_of(made)) == 0
    assert (np.diff(made.times)[within] == 0).mean() == pytest.approx(ties, abs=0.01)


@pytest.mark.parametrize(
    ("more", "message"),
    [
        ({"n_rows": 99}, "n_rows is 99; it must be an integer of at least 100"),
        ({"n_rows": 5001}, "n_rows is 5001; it must be an integer of at most 5,000"),
        ({"popularity": "steep"}, "popularity is 'steep'"),
        ({"length_spread": math.inf}, "length_spread is inf"),
        ({"sequels": 0.6}, "sequels is 0.6; it must be from 0 to 0.5"),
        ({"ties": 2}, "ties is 2"),
        ({"longest": 9}, "longest is 9; it must be an integer of at least 10"),
        ({"longest": 51}, "longest is 51; it must be an integer of at most 50"),
        ({"random_state": None}, "random_state is None"),
    ],
)
def test_invalid_arguments_raise(more, message):
    with pytest.raises(InputError) as caught:
        synthetic(**{"n_users": 100, "n_items": 50, "n_rows": 1000} | more)
    assert str(caught.value).startswith(message)


def test_a_period_too_short_for_the_longest_history_raises():
    with pytest.raises(InputError, match="days is 1; it must be an integer of at least 2"):
        synthetic(2, 90_000, 90_001, longest=90_000, days=1)


def test_a_text_equals_the_arguments():
    text = "synthetic:n_users=60, n_items=30,n_rows=9_00,drift=0.5,random_state=4"
    same = synthetic(60, 30, 900, drift=0.5, random_state=4)
    assert synthetic_of(text).to_frame().equals(same.to_frame())
    assert opt.read(text).to_frame().equals(same.to_frame())


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("synthetic:drif=1", "unknown parameter 'drif'.*drift"),
        ("synthetic:drift=much", "drift is 'much'. Pass a number"),
        ("synthetic:random_state=1,random_state=2", "random_state appears twice"),
        ("synthetic:n_users=1.5", "n_users"),
    ],
)
def test_an_invalid_text_raises(text, message):
    with pytest.raises(InputError, match=message):
        synthetic_of(text)


def test_reading_options_raise_for_synthetic_data():
    said = r"--rating-above applies to files, and synthetic:.* is synthetic; drop --rating-above"
    with pytest.raises(InputError, match=said):
        opt.read("synthetic:random_state=1", rating_above=3.0)
