from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from surerec.measures.learned import COMPONENTS
from surerec.measures.learned import _training as training
from surerec.measures.learned._examples import (
    MOST_VALIDATION_USERS,
    Examples,
    Sampling,
    TrainingHorizon,
    _history_lengths,
)
from surerec.measures.learned._features import EXTRAS, describe_features
from surerec.measures.learned._training import (
    LARGER,
    SMALL,
    BinnedExamples,
    SelectedComponents,
    ValidationUser,
    train_best,
)
from surerec.measures.learned._trees import read_trees

NAMES = [*describe_features(tuple(EXTRAS))]
N_USERS, N_EACH = 60, 50


@pytest.fixture(scope="module")
def examples():
    """Return examples whose label depends on the first feature, the last one and noise."""
    rng, n = np.random.default_rng(1), N_USERS * N_EACH
    features = rng.random((n, len(NAMES)), dtype=np.float32)
    consumed = features[:, 0] + features[:, -1] + rng.random(n) > 1.8
    owners = np.repeat(np.arange(N_USERS), N_EACH)
    return Examples(features, consumed.astype(np.float32), np.zeros(n), owners % 5 == 1, owners)


def test_validation_users_stop_the_training(examples):
    """Noise does not generalise, so that few trees are left."""
    rng = np.random.default_rng(2)
    noise = examples._replace(consumed=rng.permutation(examples.consumed))
    text = BinnedExamples.of(noise, NAMES).train(np.arange(len(NAMES)), SMALL, 0)
    assert len(read_trees(text)) < SMALL.most / 2


def test_larger_trees_have_half_of_the_weight(examples):
    """The small trees come first, with half of their weight."""
    alone, both = (
        read_trees(
            train_best(
                examples, [], SelectedComponents(tuple(EXTRAS), names), 0, lambda _: None
            ).text
        )
        for names in ((), (LARGER,))
    )
    assert [tree.scaled(0.5) for tree in alone] == both[: len(alone)]
    assert max(len(tree.leaf_values) for tree in both[len(alone) :]) > SMALL.leaves


@pytest.mark.parametrize(
    ("gain", "selected"),
    [(-0.1, ()), (0.04, ()), (0.06, COMPONENTS)],
)
def test_components_that_gain_half_a_standard_error_are_selected(
    examples, monkeypatch, gain, selected
):
    monkeypatch.setattr(training, "_rank", lambda *_: None)
    monkeypatch.setattr(training, "_gain", lambda *_: (gain, 0.1))
    found = train_best(
        examples, [None] * 30, SelectedComponents(tuple(EXTRAS)), 0, lambda _: None
    ).selected
    assert found.names == selected
    assert dict(found.gains) == dict.fromkeys(COMPONENTS, gain)


def test_every_step_of_a_fold_is_described_and_has_a_bar(examples, caplog):
    rng, n_items, steps = np.random.default_rng(2), 30, []
    features = rng.random((len(NAMES), n_items), np.float32)
    validation = [ValidationUser(features, np.arange(n_items), rng.permutation(3))] * 40
    with caplog.at_level("DEBUG", logger="surerec"):
        train_best(examples, validation, SelectedComponents(tuple(EXTRAS)), 0, steps.append)
    compared = ["comparing features", *(f"comparing '{each}'" for each in EXTRAS)]
    assert steps == [*compared, "small and larger trees"]
    bars = [each.partition(":")[0] for each in caplog.messages]
    n = len(compared)
    assert bars == ["Adding trees, at most", "Ranking validation users"] * n + [
        *["Adding trees, at most"] * 2,
        *["Ranking validation users"] * 2,
    ]
    assert caplog.text.count("40 of 40 users") == n + 2


def test_folds_train_in_parallel_as_in_sequence(examples):
    """Each fold has its own data set: LightGBM crashed with shared ones."""
    larger = SelectedComponents(tuple(EXTRAS), (LARGER,))
    folds = [examples._replace(consumed=np.roll(examples.consumed, fold)) for fold in range(4)]

    def train(fold):
        return train_best(folds[fold], [], larger, fold, lambda _: None).text

    alone = [train(fold) for fold in range(4)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(train, list(range(4)) * 6)) == alone * 6


def test_of_many_users_a_smaller_share_validates():
    few = Sampling(TrainingHorizon(0.4, None), 90, 0)
    many = few.for_users(100_000)
    assert few.for_users(500) == few
    assert few.for_users(0) == few
    n_validation = [
        sum(each.is_validation_user(key) for key in range(100_000)) for each in (few, many)
    ]
    assert n_validation[0] == pytest.approx(20_000, rel=0.05)
    assert n_validation[1] == pytest.approx(MOST_VALIDATION_USERS, rel=0.2)


@pytest.mark.parametrize(("horizon", "n_splits"), [(0.4, 2.0), (1, 1.25), (20, 2.0)])
def test_few_histories_are_split_earlier_for_a_short_horizon(horizon, n_splits):
    times, sampling = np.arange(30), Sampling(TrainingHorizon(horizon), 90, 0)
    found = [_history_lengths(times, sampling, np.random.default_rng(k)) for k in range(2000)]
    longest = sampling.target.longest_past(times)
    assert {lengths[0] for lengths in found} == {longest}
    assert np.mean([len(lengths) for lengths in found]) == pytest.approx(n_splits, abs=0.05)
    assert {length for lengths in found for length in lengths[1:]} <= {*range(1, longest)}
