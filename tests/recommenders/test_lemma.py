"""P(p ≤ ε) ≤ ε where calibration and new items are exchangeable, which they are by construction."""

import numpy as np
import pytest
from scipy.stats import binom, kstest

import surerec as sr
from tests import oracle_method as paper

N_PEOPLE = 250
LEVELS = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9]
TRAIN, CALIBRATION = 4, 7


@pytest.fixture(scope="module")
def statistics():
    """Counts from other people alone; those asked below are new."""
    return sr.count_precedence(sr.datasets.synthetic(300, 60, 6_000, seed=9))


@pytest.fixture(scope="module")
def people():
    """First some items, then others in an order that is a random permutation; the last is new."""
    random = np.random.default_rng(31)
    drawn = [random.permutation(60)[: TRAIN + CALIBRATION + 1] for _ in range(N_PEOPLE)]
    return [(codes[:-1], codes[-1]) for codes in drawn]


def p_values(model, statistics, people, seeds=None):
    """Each person's p-value of their one new item: the items of one person depend on each other."""
    ids = statistics.interactions.items.ids
    found = []
    for place, (known, new) in enumerate(people):
        if seeds is not None:
            model = model.fitted_on(statistics, seed=seeds + place)
        history = ids.gather(known).to_list()
        frame = model.p_values(history=history, items=[ids[int(new)]])
        found.append(frame["p_value"][0])
    return np.array(found)


@pytest.mark.parametrize("name", paper.NAMES)
def test_a_new_item_is_rarely_left_out(statistics, people, name):
    model = sr.InductiveConformal(measure=name, train_share=TRAIN / (TRAIN + CALIBRATION))
    model.fit(statistics)
    found = p_values(model, statistics, people)
    for level in LEVELS:
        errors = int((found <= level + 1e-9).sum())
        # So many errors or more would come by chance once in 10,000 times, were the lemma true.
        assert binom.sf(errors - 1, N_PEOPLE, level) > 1e-4, (level, errors)


@pytest.mark.parametrize("name", paper.NAMES)
def test_smoothed_p_values_are_uniform(statistics, people, name):
    model = sr.InductiveConformal(
        measure=name, train_share=TRAIN / (TRAIN + CALIBRATION), smoothed=True
    )
    model.fit(statistics)
    found = p_values(model, statistics, people, seeds=1_000)
    assert kstest(found, "uniform").pvalue > 1e-3


def test_the_test_notices_when_items_are_not_exchangeable(statistics, people):
    # Calibrate on popular items and call a rare one new; codes are numbered by popularity.
    by_popularity = []
    for known, _ in people:
        rest = np.setdiff1d(np.arange(60), known[:TRAIN])
        by_popularity.append((np.r_[known[:TRAIN], rest[:CALIBRATION]], rest[-1]))
    model = sr.InductiveConformal(measure="CM4", train_share=TRAIN / (TRAIN + CALIBRATION))
    found = p_values(model.fit(statistics), statistics, by_popularity)
    errors = int((found <= 0.2).sum())
    assert binom.sf(errors - 1, N_PEOPLE, 0.2) < 1e-4
