from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest

from surerec.measures.learned import INGREDIENTS
from surerec.measures.learned import _growing as growing
from surerec.measures.learned._examples import MOST_HELD_OUT, Examples, Sampling, TrainedFuture
from surerec.measures.learned._features import EXTRAS, in_words
from surerec.measures.learned._growing import LARGER, SMALL, Binned, Kept, grow_best
from surerec.measures.learned._trees import read_trees

NAMES = [*in_words(tuple(EXTRAS))]
N_USERS, N_EACH = 60, 50


@pytest.fixture(scope="module")
def examples():
    """Items that are taken where the first feature, the last of all, or chance is high."""
    chance, n = np.random.default_rng(1), N_USERS * N_EACH
    features = chance.random((n, len(NAMES)), dtype=np.float32)
    consumed = features[:, 0] + features[:, -1] + chance.random(n) > 1.8
    owners = np.repeat(np.arange(N_USERS), N_EACH)
    return Examples(features, consumed.astype(np.float32), np.zeros(n), owners % 5 == 1, owners)


@pytest.fixture(scope="module")
def binned(examples):
    return Binned.of(examples, NAMES)


def splits(text):
    return {feature for tree in read_trees(text) for feature in tree.features}


def test_trees_look_at_the_columns_that_they_are_given_and_no_others(binned):
    every = np.arange(len(NAMES))
    assert {0, len(NAMES) - 1} <= splits(binned.grow(every, SMALL, 0))
    assert splits(binned.grow(every[:-1], SMALL, 0)) <= set(range(len(NAMES) - 1))
    assert splits(binned.grow(np.array([3, 7]), SMALL, 0)) <= {3, 7}


def test_the_users_held_out_stop_it(examples):
    """What is learned by heart is of no use to them, so that few trees are left."""
    chance = np.random.default_rng(2)
    noise = examples._replace(consumed=chance.permutation(examples.consumed))
    text = Binned.of(noise, NAMES).grow(np.arange(len(NAMES)), SMALL, 0)
    assert len(read_trees(text)) < SMALL.most / 2


def test_larger_trees_are_half_of_the_answer(examples):
    """The small trees as they are alone come first, at half their weight."""
    alone, both = (
        read_trees(grow_best(examples, [], Kept(names), 0, lambda _: None).text)
        for names in ((), (LARGER,))
    )
    assert [tree.times(0.5) for tree in alone] == both[: len(alone)]
    assert max(len(tree.leaf_values) for tree in both[len(alone) :]) > SMALL.leaves


@pytest.mark.parametrize(("gain", "kept"), [(-0.1, ()), (0.04, ()), (0.06, INGREDIENTS)])
def test_what_gains_more_than_half_a_standard_error_is_kept(examples, monkeypatch, gain, kept):
    monkeypatch.setattr(growing, "_judge", lambda *_: None)
    monkeypatch.setattr(growing, "_gain", lambda *_: (gain, 0.1))
    found = grow_best(examples, [None] * 30, None, 0, lambda _: None).kept
    assert found.names == kept
    assert dict(found.gains) == dict.fromkeys(INGREDIENTS, gain)


def test_folds_grow_side_by_side_as_one_after_the_other(examples):
    """Each has data sets of its own: threads that shared one crashed LightGBM now and then."""
    folds = [examples._replace(consumed=np.roll(examples.consumed, fold)) for fold in range(4)]

    def grow(fold):
        return grow_best(folds[fold], [], Kept((LARGER,)), fold, lambda _: None).text

    alone = [grow(fold) for fold in range(4)]
    with ThreadPoolExecutor(8) as pool:
        assert list(pool.map(grow, list(range(4)) * 6)) == alone * 6


def test_of_many_users_a_smaller_share_is_set_aside():
    few = Sampling(TrainedFuture(0.4, None), 2, 90, 0)
    many = few.among(100_000)
    assert few.among(500) == few
    assert few.among(0) == few
    aside = [sum(each.sets_aside(key) for key in range(100_000)) for each in (few, many)]
    assert aside[0] == pytest.approx(20_000, rel=0.05)
    assert aside[1] == pytest.approx(MOST_HELD_OUT, rel=0.2)
