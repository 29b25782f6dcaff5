import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.conformal import MERGERS, merge_p_values, p_value_counts
from surerec.errors import InputError

EVERYONE = [name for name, rule in MERGERS.items() if rule.of == "everyone"]
LEVELS = [0.05, 0.1, 0.2, 0.3]
N = 200_000


def opposed(epsilon, rng):
    """Two uniform p-values that add up to 2ε where that can be: as bad as it gets for means."""
    first = rng.random(N)
    return np.stack((first, np.where(first <= 2 * epsilon, 2 * epsilon - first, first))).clip(1e-12)


def conformal_pair(epsilon, rng):
    """p-values of exchangeable scores of two people who are opposed near the border."""
    n = 99
    first = rng.integers(1, n + 2, N)  # the rank of the new score among n + 1: uniform
    border = round(2 * epsilon * (n + 1))
    return np.stack((first, np.where(first < border, border - first, first))) / (n + 1)


def margin(epsilon):
    return 4 * np.sqrt(epsilon * (1 - epsilon) / N)


@pytest.mark.parametrize("epsilon", LEVELS)
@pytest.mark.parametrize("made", [opposed, conformal_pair])
@pytest.mark.parametrize("rule", MERGERS)
def test_every_rule_is_valid_where_the_raw_ones_fail(rule, made, epsilon):
    p_values = made(epsilon, np.random.default_rng(1))
    for one in p_values:  # each of them is a p-value
        assert (one <= epsilon + 1e-12).mean() <= epsilon + margin(epsilon)
    merged = merge_p_values(p_values, rule)
    assert (merged <= epsilon + 1e-12).mean() <= epsilon + margin(epsilon)


@pytest.mark.parametrize("epsilon", LEVELS)
def test_the_raw_mean_and_the_raw_minimum_fail(epsilon):
    p_values = opposed(epsilon, np.random.default_rng(1))
    for raw in (p_values.mean(axis=0), p_values.min(axis=0)):
        assert (raw <= epsilon + 1e-12).mean() > 1.9 * epsilon


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("dependence", ["independent", "equal", "antithetic", "stratified"])
def test_every_rule_is_valid_for_more_people(n, dependence):
    rng = np.random.default_rng(n)
    u = rng.random(N)
    rows = {
        "independent": lambda k: rng.random(N),  # noqa: ARG005
        "equal": lambda k: u,  # noqa: ARG005
        "antithetic": lambda k: u if k % 2 else 1 - u,
        "stratified": lambda k: (u + k / n) % 1,
    }[dependence]
    p_values = np.stack([rows(k) for k in range(n)]).clip(1e-12)
    for rule in MERGERS:
        for epsilon in LEVELS:
            found = (merge_p_values(p_values, rule) <= epsilon).mean()
            assert found <= epsilon + margin(epsilon), rule


@pytest.mark.parametrize("n", [3, 4, 8])
def test_the_factor_of_the_harmonic_mean_is_the_sharp_one(n):
    # The dual bound for sums of 1/p of uniform p-values, minimised over its parameter.
    t = np.linspace(0, 1 / n, 100_001)[1:-1]
    sharp = (np.log((1 - (n - 1) * t) / t) / (1 - n * t)).min()
    factor = float(merge_p_values(np.full((n, 1), 0.01), "harmonic")[0]) / 0.01
    assert factor == pytest.approx(sharp, rel=1e-6)


def test_only_the_maximum_is_valid_if_one_hypothesis_holds_and_nobody_knows_which():
    rng = np.random.default_rng(3)
    p_values = np.full((3, N), 1e-9)  # two that are false
    p_values[1] = rng.random(N).clip(1e-12)  # and one that holds
    assert (merge_p_values(p_values, "maximum") <= 0.1).mean() <= 0.1 + margin(0.1)
    assert all((merge_p_values(p_values, rule) <= 0.1).mean() > 0.12 for rule in EVERYONE)


@given(st.lists(st.floats(1e-6, 1), min_size=1, max_size=8))
def test_bounds_between_the_rules(p_values):
    merged = {rule: float(merge_p_values(p_values, rule)[0]) for rule in MERGERS}
    assert max(merged.values()) <= 1
    assert merged["maximum"] == max(p_values)
    assert merged["bonferroni"] == pytest.approx(min(1, len(p_values) * min(p_values)))
    assert merged["mean"] == pytest.approx(min(1, 2 * np.mean(p_values)))
    assert merged["harmonic"] >= min(p_values) * (1 - 1e-9)


def test_of_exchangeable_scores():
    """Two people share half of their calibration scores, so that their p-values depend."""
    rng = np.random.default_rng(5)
    found = []
    for _ in range(4000):
        shared, own = rng.normal(size=20), rng.normal(size=(2, 20))
        new = rng.normal()
        counts = [p_value_counts(np.append(shared, own[who]), [new])[0] for who in range(2)]
        found.append(np.array(counts) / 41)
    p_values = np.array(found).T
    for rule in MERGERS:
        merged = merge_p_values(p_values, rule)
        assert (merged <= 0.1 + 1e-12).mean() <= 0.1 + 4 * np.sqrt(0.09 / 4000)


@pytest.mark.parametrize(
    ("given", "said"),
    [([], "at least one"), ([0.0, 0.5], "above 0"), ([[0.5], [np.nan]], "above 0")],
)
def test_bad_input(given, said):
    with pytest.raises(InputError, match=said):
        merge_p_values(given)
    with pytest.raises(InputError, match="rule"):
        merge_p_values([0.5], "median")
