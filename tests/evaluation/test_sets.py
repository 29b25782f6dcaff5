import numpy as np
import pytest

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.evaluation import (
    measure_sets,
    risk_curve,
    sets_at_thresholds,
)
from surerec.measures import MeasureScorer


@pytest.fixture(scope="module")
def outcomes():
    films = sr.datasets.synthetic(n_users=260, n_items=60, n_rows=5200, drift=0.4, random_state=4)
    counts = sr.count_precedence(films)
    cases = profile_cases(films, 0.4)
    return observe(MeasureScorer(counts, "CM12"), counts, cases, keep_candidates=True)


@pytest.mark.parametrize("threshold", ["rank", "score"])
@pytest.mark.parametrize("guarantee", ["recall", "hit"])
def test_losses_and_sizes_equal_those_by_hand(outcomes, threshold, guarantee):
    whole = risk_curve(outcomes, threshold, guarantee)
    calibrates = np.arange(len(outcomes)) % 2 == 0
    tested = np.flatnonzero(~calibrates)
    halves = whole.of_owners(calibrates), whole.of_owners(~calibrates)
    (at,), (losses,), (sizes,) = sets_at_thresholds(*halves, outcomes, tested, threshold, [0.3])
    assert at == halves[0].threshold(0.3)
    for place, case in enumerate(tested):
        mine = outcomes.owners == case
        if threshold == "rank":
            consumed = outcomes.ranks[mine] <= at
            size = min(at, outcomes.n_candidates[case])
        else:
            consumed = outcomes.shares[mine] >= -at
            size = (outcomes.candidate_shares[case] >= np.float32(-at)).sum()
        lost = 1 - consumed.mean() if guarantee == "recall" else float(not consumed.any())
        assert losses[place] == pytest.approx(lost)
        assert sizes[place] == size


@pytest.mark.parametrize("threshold", ["rank", "score"])
@pytest.mark.parametrize("guarantee", ["recall", "hit"])
def test_the_mean_loss_over_splits_is_close_to_nominal(outcomes, threshold, guarantee):
    # At ε = 0.5 a single item already hits more often than nominal.
    epsilons = [0.1, 0.3, 0.5] if guarantee == "recall" else [0.1, 0.3]
    found = measure_sets(outcomes, threshold, guarantee, epsilons=epsilons, n_splits=20)
    over = found.losses.mean(axis=1) - epsilons
    assert over.max() < 0.02
    assert over.min() > (-0.04 if guarantee == "recall" else -0.06)  # ranks are whole
    assert (np.diff(found.sizes.mean(axis=1)) < 0).all()


@pytest.mark.parametrize("threshold", ["rank", "score"])
def test_each_half_is_tested_at_the_threshold_of_the_other(outcomes, threshold):
    found = measure_sets(outcomes, threshold, epsilons=[0.3], n_splits=1, random_state=9)
    half = np.random.default_rng(9).permutation(len(outcomes)) % 2
    whole = risk_curve(outcomes, threshold)
    for side in (0, 1):
        users = np.flatnonzero(half == side)
        curves = whole.of_owners(half != side), whole.of_owners(half == side)
        by_hand = sets_at_thresholds(*curves, outcomes, users, threshold, [0.3])
        assert found.losses[0, users] == pytest.approx(by_hand.losses[0])
        assert found.sizes[0, users] == pytest.approx(by_hand.sizes[0])


def test_a_group_without_calibration_users_has_no_size(outcomes):
    groups = np.zeros(len(outcomes), dtype=np.int64)
    groups[5] = 1
    found = measure_sets(outcomes, "rank", epsilons=[0.5], groups=groups, n_splits=2)
    assert np.isnan(found.sizes[0, 5])
    assert found.floor[5] == 1
    assert found.losses[0, 5] == 0
