import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.conformal import ServedPrecision, betting_p_value

LEVELS = st.sampled_from([0.1, 0.3, 0.5, 0.8])


def slow_p_value(losses, level, delta):
    """Waudby-Smith and Ramdas, formula by formula."""
    losses = [x for x in losses if not np.isnan(x)]
    capital = best = 1.0
    for i in range(len(losses)):
        past = losses[:i]
        means = [(0.5 + sum(past[: j + 1])) / (j + 2) for j in range(i)]
        variance = (0.25 + sum((x - m) ** 2 for x, m in zip(past, means, strict=True))) / (i + 1)
        bet = min(np.sqrt(2 * np.log(1 / delta) / (len(losses) * variance)), 0.9 / (1 - level))
        capital *= 1 + bet * (level - losses[i])
        best = max(best, capital)
    return 1 / best


@given(st.lists(st.sampled_from([0.0, 0.25, 0.5, 1.0, np.nan]), max_size=15), LEVELS)
def test_the_p_value_is_one_over_the_largest_capital(losses, level):
    found = betting_p_value(np.array(losses), level, delta=0.1)
    assert found == pytest.approx(slow_p_value(losses, level, 0.1))


LOSSES = {
    "all or nothing": lambda rng, mean, n: rng.random(n) < mean,
    "skewed": lambda rng, mean, n: rng.beta(0.3, 0.3 * (1 - mean) / mean, n),
    "narrow": lambda rng, mean, n: rng.beta(20, 20 * (1 - mean) / mean, n),
}


@pytest.mark.parametrize("kind", LOSSES)
@pytest.mark.parametrize("n", [20, 400])
def test_a_true_level_is_rejected_at_most_at_the_nominal_rate(kind, n):
    rng = np.random.default_rng(n)
    draws = 2000
    rejected = sum(
        betting_p_value(LOSSES[kind](rng, 0.6, n), 0.6, delta=0.1) <= 0.1 for _ in range(draws)
    )
    assert rejected / draws <= 0.1 + 3 * np.sqrt(0.1 * 0.9 / draws)


N_BINS = 30


def draw_users(rng, n):
    """Probabilities grow with the bin, and users differ in how much they consume."""
    probabilities = np.linspace(0.02, 0.85, N_BINS)
    counts = rng.poisson(np.geomspace(40, 0.05, N_BINS), (n, N_BINS))
    eager = rng.beta(4, 2, n)[:, None] * 1.2
    return counts, rng.binomial(counts, np.clip(probabilities * eager, 0, 1))


@pytest.fixture(scope="module")
def truth():
    """The mean loss of served users at each threshold, from very many users."""
    population = ServedPrecision(
        *draw_users(np.random.default_rng(99), 100_000), np.zeros(100_000, bool)
    )
    return np.nanmean(population.losses, axis=1)


@pytest.mark.parametrize("precision", [0.2, 0.3, 0.45])
def test_at_least_87_percent_of_500_draws_have_the_precision(truth, precision):
    kept, passed = 0, 0
    for random_state in range(500):
        rng = np.random.default_rng((random_state, 1))
        found = ServedPrecision(*draw_users(rng, 400), np.arange(400) % 4 == 0)
        at = found.passed(precision)
        passed += at is not None
        kept += at is None or truth[at.threshold] <= 1 - precision
    assert kept >= 0.87 * 500
    assert passed > 400  # the guarantee is made often enough


def slow_passed(counts, hits, chooses, precision):
    """Test every threshold, user by user."""

    def loss(user, threshold):
        shown = counts[user, threshold:].sum()
        return np.nan if shown == 0 else 1 - hits[user, threshold:].sum() / shown

    def p_value(users, threshold):
        return betting_p_value([loss(user, threshold) for user in users], 1 - precision)

    choosing, testing = np.flatnonzero(chooses), np.flatnonzero(~chooses)
    threshold = min(range(counts.shape[1]), key=lambda t: p_value(choosing, t))
    found = None
    while threshold >= 0 and p_value(testing, threshold) <= 0.1:
        found, threshold = threshold, threshold - 1
    return found


@given(st.integers(0, 2**32), st.sampled_from([0.2, 0.5]))
def test_thresholds_are_tested_in_sequence_by_other_users(random_state, precision):
    rng = np.random.default_rng(random_state)
    counts = rng.integers(0, 3, (40, 5))
    hits = rng.binomial(counts, np.linspace(0.1, 0.9, 5))
    chooses = rng.random(40) < 0.3
    found = ServedPrecision(counts, hits, chooses).passed(precision)
    assert (None if found is None else found.threshold) == slow_passed(
        counts, hits, chooses, precision
    )
    without = int(rng.integers(40))
    others = np.arange(40) != without
    mine = ServedPrecision(counts, hits, chooses).passed(precision, without=without)
    assert mine == ServedPrecision(counts[others], hits[others], chooses[others]).passed(precision)


def test_an_empty_list_is_not_a_success():
    # One in eight users is shown items and consumes none. Counting the others as served without a
    # loss would guarantee a high precision.
    counts = np.zeros((400, 1), int)
    counts[::8] = 5
    found = ServedPrecision(counts, np.zeros_like(counts), np.arange(400) % 4 == 0)
    assert found.passed(0.1) is None
    assert found.best() is None
