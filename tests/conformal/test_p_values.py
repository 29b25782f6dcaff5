from decimal import Decimal
from fractions import Fraction

import crepes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from surerec.conformal import (
    MERGERS,
    entry_confidence,
    highest_confidence,
    in_set,
    merge_p_values,
    p_value_counts,
    smoothed_p_values,
)
from surerec.errors import InputError
from tests import oracle_method as paper

few_values = st.integers(-4, 4).map(float)  # ties are the rule
any_values = st.floats(allow_nan=False, allow_infinity=True)
scores = st.lists(few_values | any_values, max_size=25)


def array(values):
    return np.array(values, dtype=np.float64)


@given(scores, scores)
def test_counts_agree_with_the_definition(calibration, candidates):
    counts = p_value_counts(array(calibration), array(candidates))
    assert counts.dtype == np.int64
    levels = len(calibration) + 1
    expected = [paper.p_value(calibration, new) for new in candidates]
    assert [Fraction(int(count), levels) for count in counts] == expected
    assert all(1 <= count <= levels for count in counts)  # p in (0, 1]


short = st.lists(few_values, min_size=1, max_size=25)
long = st.lists(few_values | st.floats(0, 1), min_size=130, max_size=300)  # a longer search


@given(short | long, short, st.integers(0, 2**32 - 1))
def test_p_values_agree_with_crepes(calibration, candidates, random_state):
    # crepes uses nonconformity scores, with the opposite sign.
    known, new = array(calibration), array(candidates)
    peer = crepes.ConformalClassifier().fit(-known)
    uniforms = np.random.RandomState(random_state).rand(len(new))  # what crepes draws
    expected = peer.predict_p(-new, smoothing=True, seed=random_state)
    np.testing.assert_allclose(
        smoothed_p_values(known, new, uniforms), expected, rtol=1e-15, atol=0
    )


DECIMALS = [Decimal(hundredth) / 100 for hundredth in range(1, 100)]


@pytest.mark.parametrize("n_calibration", [0, 1, 2, 3, 4, 6, 9, 11, 19, 24, 39, 99, 199, 999])
def test_membership_at_exact_thresholds(n_calibration):
    # An item is in the set iff p > ε. As floats, 1 − 0.9 < 0.1, which must not include p = 0.1.
    levels = n_calibration + 1
    counts = np.arange(1, levels + 1)
    for decimal in DECIMALS:
        exactly = [Fraction(count, levels) > Fraction(decimal) for count in range(1, levels + 1)]
        for significance in (float(decimal), 1 - float(1 - decimal)):
            assert in_set(counts, levels, significance).tolist() == exactly, (decimal, levels)


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 10, 21, 30, 41, 100])
def test_an_item_enters_above_its_entry_confidence_and_not_at_it(levels):
    counts = np.arange(1, levels + 1)
    entries = entry_confidence(counts, levels)
    for count, entry in zip(counts, entries, strict=True):
        assert entry == float(Fraction(levels - int(count), levels))
        alone = np.array([count])
        assert not in_set(alone, levels, 1 - entry)[0]
        assert in_set(alone, levels, 1 - (entry + 1e-6))[0]
    assert highest_confidence(levels - 1) == entries[0]  # above it every item qualifies


BAGS = st.lists(few_values, min_size=1, max_size=12)


@given(BAGS, st.sampled_from(DECIMALS))
def test_the_lemma_for_every_choice_of_the_new_item(bag, significance):
    # Each of l + 1 exchangeable items is the new one equally often. By the lemma, at most ε (l + 1)
    # of these choices exclude the new one, for any bag of scores.
    left_out = 0
    for place, new in enumerate(bag):
        rest = array(bag[:place] + bag[place + 1 :])
        counts = p_value_counts(rest, array([new]))
        left_out += not in_set(counts, len(bag), float(significance))[0]
    assert left_out <= Fraction(significance) * len(bag)


EVERYONE = [name for name, rule in MERGERS.items() if rule.of == "everyone"]
LEVELS = [0.05, 0.1, 0.2, 0.3]
N = 200_000


def margin(epsilon):
    return 4 * np.sqrt(epsilon * (1 - epsilon) / N)


@pytest.mark.parametrize("epsilon", LEVELS)
def test_every_rule_is_valid_in_the_worst_case_of_means(epsilon):
    """Two uniform p-values with a sum of 2ε where possible, the worst case for means."""
    first = np.random.default_rng(1).random(N)
    second = np.where(first <= 2 * epsilon, 2 * epsilon - first, first)
    for rule in MERGERS:
        merged = merge_p_values(np.stack((first, second)).clip(1e-12), rule)
        assert (merged <= epsilon + 1e-12).mean() <= epsilon + margin(epsilon), rule


@pytest.mark.parametrize("n", [2, 3, 5, 8])
@pytest.mark.parametrize("dependence", ["independent", "equal", "antithetic", "stratified"])
def test_every_rule_is_valid_for_more_p_values(n, dependence):
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
def test_the_factor_of_the_harmonic_mean_is_sharp(n):
    # The dual bound for sums of 1/p of uniform p-values, minimised over its parameter.
    t = np.linspace(0, 1 / n, 100_001)[1:-1]
    sharp = (np.log((1 - (n - 1) * t) / t) / (1 - n * t)).min()
    factor = float(merge_p_values(np.full((n, 1), 0.01), "harmonic")[0]) / 0.01
    assert factor == pytest.approx(sharp, rel=1e-6)


def test_only_the_maximum_is_valid_if_one_unknown_hypothesis_holds():
    rng = np.random.default_rng(3)
    p_values = np.full((3, N), 1e-9)  # two that are false
    p_values[1] = rng.random(N).clip(1e-12)  # and one that holds
    assert (merge_p_values(p_values, "maximum") <= 0.1).mean() <= 0.1 + margin(0.1)
    assert all((merge_p_values(p_values, rule) <= 0.1).mean() > 0.12 for rule in EVERYONE)


@pytest.mark.parametrize(
    ("given", "message"),
    [([], "at least one"), ([0.0, 0.5], "above 0"), ([[0.5], [np.nan]], "above 0")],
)
def test_invalid_input_is_rejected(given, message):
    with pytest.raises(InputError, match=message):
        merge_p_values(given)
    with pytest.raises(InputError, match="rule"):
        merge_p_values([0.5], "median")


@pytest.mark.parametrize("n_values", [1, 3, 1_000_000])
def test_smoothed_p_values_of_exchangeable_scores_are_uniform(n_values):
    random = np.random.default_rng(20)
    p_values = []
    for _ in range(2_000):  # from all scores tied to none
        drawn = random.integers(0, n_values, size=8).astype(float)
        p_values.extend(smoothed_p_values(drawn[1:], drawn[:1], random.random(1)))
    assert kstest(p_values, "uniform").pvalue > 0.01
