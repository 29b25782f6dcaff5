import ast
import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import crepes
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import kstest

from surerec import conformal
from surerec.conformal import (
    entry_confidence,
    highest_confidence,
    in_set,
    p_value_counts,
    smoothed_p_values,
)
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


def test_counts_by_hand():
    calibration = array([3, 1, 2, 2])
    counts = p_value_counts(calibration, array([0, 1, 2, 2.5, 3, 9]))
    assert counts.tolist() == [1, 2, 4, 4, 5, 5]
    assert calibration.tolist() == [3, 1, 2, 2]  # the caller's own array is left as it was


def test_nothing_to_calibrate_on_makes_every_p_value_one():
    assert p_value_counts(array([]), array([-math.inf, 0, 7])).tolist() == [1, 1, 1]
    assert p_value_counts(array([1, 2]), array([])).tolist() == []


def test_zero_scores_tie_whatever_their_sign():
    assert p_value_counts(array([-0.0, 0.0]), array([0.0, -0.0])).tolist() == [3, 3]


@given(scores, scores, st.randoms(use_true_random=False))
def test_the_order_of_calibration_scores_is_irrelevant(calibration, candidates, random):
    shuffled = calibration.copy()
    random.shuffle(shuffled)
    np.testing.assert_array_equal(
        p_value_counts(array(calibration), array(candidates)),
        p_value_counts(array(shuffled), array(candidates)),
    )


@given(st.lists(few_values, min_size=1, max_size=25), st.lists(few_values, min_size=1, max_size=25))
def test_p_values_agree_with_crepes(calibration, candidates):
    # crepes speaks of nonconformity: the sign turned.
    peer = crepes.ConformalClassifier().fit(-array(calibration))
    counts = p_value_counts(array(calibration), array(candidates))
    expected = peer.predict_p(-array(candidates), smoothing=False)
    np.testing.assert_array_equal(counts / (len(calibration) + 1), expected)


@given(
    st.lists(few_values, min_size=1, max_size=25),
    st.lists(few_values, min_size=1, max_size=25),
    st.integers(0, 2**32 - 1),
)
def test_smoothed_p_values_agree_with_crepes(calibration, candidates, seed):
    uniforms = np.random.RandomState(seed).rand(len(candidates))  # what crepes draws
    ours = smoothed_p_values(array(calibration), array(candidates), uniforms)
    peer = crepes.ConformalClassifier().fit(-array(calibration))
    expected = peer.predict_p(-array(candidates), smoothing=True, seed=seed)
    np.testing.assert_allclose(ours, expected, rtol=1e-15, atol=0)


def test_smoothed_p_values_by_hand():
    # Below 2 is one score, equal to it are two and itself: (1 + u · 3) / 5.
    calibration, candidates = array([3, 1, 2, 2]), array([2, 2, 2])
    smoothed = smoothed_p_values(calibration, candidates, array([0, 0.5, 1]))
    np.testing.assert_allclose(smoothed, [1 / 5, 2.5 / 5, 4 / 5])
    assert smoothed.dtype == np.float64


@given(scores, scores, st.floats(0, 1))
def test_a_smoothed_p_value_never_exceeds_the_plain_one(calibration, candidates, uniform):
    plain = p_value_counts(array(calibration), array(candidates)) / (len(calibration) + 1)
    uniforms = np.full(len(candidates), uniform)
    smoothed = smoothed_p_values(array(calibration), array(candidates), uniforms)
    assert (smoothed <= plain * (1 + 1e-15)).all()
    ones = np.ones(len(candidates))
    np.testing.assert_allclose(
        smoothed_p_values(array(calibration), array(candidates), ones), plain, rtol=1e-15
    )


DECIMALS = [Decimal(hundredth) / 100 for hundredth in range(1, 100)]


@pytest.mark.parametrize("n_calibration", [0, 1, 2, 3, 4, 6, 9, 11, 19, 24, 39, 99, 199, 999])
def test_membership_at_the_very_borders(n_calibration):
    # Exactly: an item is in iff p > ε. In floats 1 − 0.9 < 0.1, so that p = 0.1 would slip in.
    levels = n_calibration + 1
    counts = np.arange(1, levels + 1)
    for decimal in DECIMALS:
        exactly = [Fraction(count, levels) > Fraction(decimal) for count in range(1, levels + 1)]
        for significance in (float(decimal), 1 - float(1 - decimal)):
            assert in_set(counts, levels, significance).tolist() == exactly, (decimal, levels)


def test_p_of_a_tenth_is_out_at_confidence_nine_tenths():
    assert in_set(np.array([1, 2]), 10, 1 - 0.9).tolist() == [False, True]
    assert in_set(np.array([3, 4]), 10, 1 - 0.7).tolist() == [False, True]
    assert in_set(np.array([7, 8]), 10, 1 - 0.3).tolist() == [False, True]
    assert in_set(np.array([3, 4]), 20, 0.15).tolist() == [False, True]


@given(st.integers(0, 60), st.floats(0.001, 0.999), st.floats(0.001, 0.999))
def test_sets_grow_with_confidence(n_calibration, one, other):
    counts = np.arange(1, n_calibration + 2)
    surer, less_sure = sorted((one, other))  # the significance
    larger = in_set(counts, n_calibration + 1, surer)
    smaller = in_set(counts, n_calibration + 1, less_sure)
    assert (larger | ~smaller).all()


@pytest.mark.parametrize("levels", [1, 2, 3, 5, 10, 21, 30, 41, 100])
def test_an_item_enters_above_its_entry_confidence_and_not_at_it(levels):
    counts = np.arange(1, levels + 1)
    entries = entry_confidence(counts, levels)
    for count, entry in zip(counts, entries, strict=True):
        assert entry == float(Fraction(levels - int(count), levels))
        alone = np.array([count])
        assert not in_set(alone, levels, 1 - entry)[0]
        assert in_set(alone, levels, 1 - (entry + 1e-6))[0]


@pytest.mark.parametrize("n_calibration", [0, 1, 2, 4, 9, 10, 57])
def test_beyond_the_highest_confidence_everything_qualifies(n_calibration):
    levels = n_calibration + 1
    highest = highest_confidence(n_calibration)
    assert highest == n_calibration / levels
    worst = np.array([1])  # conforms less than all of the calibration items
    assert not in_set(worst, levels, 1 - highest)[0]
    assert in_set(worst, levels, 1 - (highest + 1e-6))[0]


BAGS = st.lists(few_values, min_size=1, max_size=12)


@given(BAGS, st.sampled_from(DECIMALS))
def test_the_lemma_exactly_over_every_choice_of_the_new_item(bag, significance):
    # Exchangeable items: each of the l + 1 is the new one equally often. So the lemma says of any
    # bag of scores that at most ε (l + 1) of these choices leave the new one out.
    left_out = 0
    for place, new in enumerate(bag):
        rest = array(bag[:place] + bag[place + 1 :])
        counts = p_value_counts(rest, array([new]))
        left_out += not in_set(counts, len(bag), float(significance))[0]
    assert left_out <= Fraction(significance) * len(bag)


@pytest.mark.parametrize("n_values", [1, 3, 1_000_000])
def test_smoothed_p_values_of_exchangeable_scores_are_uniform(n_values):
    random = np.random.default_rng(20)
    p_values = []
    for _ in range(2_000):  # from all scores tied to none
        drawn = random.integers(0, n_values, size=8).astype(float)
        p_values.extend(smoothed_p_values(drawn[1:], drawn[:1], random.random(1)))
    assert kstest(p_values, "uniform").pvalue > 0.01


def test_conformal_knows_nothing_of_recommenders():
    for path in Path(conformal.__file__).parent.glob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            names = [a.name for a in node.names] if isinstance(node, ast.Import) else []
            names += [node.module or ""] if isinstance(node, ast.ImportFrom) else []
            assert not any("recommenders" in name or "measures" in name for name in names)


@given(
    st.lists(few_values | any_values | st.floats(0, 1), min_size=130, max_size=300),
    st.lists(few_values | any_values | st.floats(0, 1), min_size=1, max_size=40),
)
def test_many_calibration_scores_are_searched_as_numpy_searches(calibration, candidates):
    # A table of buckets comes first, whatever the scores' spread.
    ordered, new = np.sort(array(calibration)), array(candidates)
    below = np.searchsorted(ordered, new, side="left")
    at_most = np.searchsorted(ordered, new, side="right")
    assert p_value_counts(calibration, new).tolist() == (at_most + 1).tolist()
    chances = np.full(len(new), 0.25)
    expected = (below + 0.25 * (at_most - below + 1)) / (len(calibration) + 1)
    assert smoothed_p_values(calibration, new, chances).tolist() == expected.tolist()
