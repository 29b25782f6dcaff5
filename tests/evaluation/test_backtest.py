"""Backtests use no later data."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec._words import DAY, day_of
from surerec.calibration import window_cases
from surerec.errors import InputError
from surerec.evaluation import AGES, TemporalSplit, backtest, temporal_windows
from surerec.measures import MeasureScorer
from surerec.measures.learned import LearnedModel, LearnedScorer

DAYS = 120
EPSILON = 0.2


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9000, drift=0.5, random_state=3)


def make_scorer(statistics):
    return MeasureScorer(statistics, "CM12")


@pytest.fixture(scope="module")
def windows():
    return TemporalSplit(DAYS, n_users=10_000, min_users=5)


@pytest.fixture(scope="module")
def found(films, windows):
    return backtest(films, make_scorer, windows, epsilons=[EPSILON])


def test_windows_lie_within_the_data_after_three_others(films, windows):
    begins = temporal_windows(films, windows)
    assert begins[-1] + windows.length == films.times.max() + 1
    assert np.diff(begins).tolist() == [windows.length] * (len(begins) - 1)
    assert begins[0] - 3 * windows.length >= films.times.min()
    assert begins[0] - 4 * windows.length < films.times.min()


def losses_by_hand(films, counted_until, begin, end, threshold):
    """Rank the held-out items of the window with statistics up to a date, one by one."""
    counts = sr.count_precedence(films.until(counted_until))
    scorer = make_scorer(counts)
    cases = window_cases(films, begin, end, 0.4)
    losses = []
    for case in range(len(cases)):
        known = cases.known(case)
        scores = scorer.score(known, without_user=int(cases.users[case]))
        candidates = counts.items_outside(known)
        order = sorted(candidates.tolist(), key=lambda code: (-scores[code], code))
        ranks = [
            order.index(item) + 1 if counts.support[item] > 0 else np.inf
            for item in cases.future(case).tolist()
        ]
        losses.append(np.mean([rank > threshold or rank == np.inf for rank in ranks]))
    return losses


@pytest.mark.parametrize("model", ["recalibrated and refitted", "one window old"])
def test_rows_equal_those_of_recalibration_by_hand(films, windows, found, model):
    begin, w = temporal_windows(films, windows)[-1], windows.length
    by_hand = sr.PopulationConformal("CM12", threshold="rank", n_calibration=10_000)
    by_hand.fit(films.until(begin - w)).recalibrate(films.until(begin))
    threshold = by_hand.calibration_.curve("recall").threshold(EPSILON)
    counted = begin if model == "recalibrated and refitted" else begin - w
    losses = losses_by_hand(films, counted, begin, begin + w, threshold)
    (row,) = found.filter(window=day_of(begin), model=model).to_dicts()
    assert row["loss"] == pytest.approx(np.mean(losses))
    assert (row["n_test"], row["n_calibration"]) == (len(losses), len(by_hand.calibration_))
    assert row["loss_se"] == pytest.approx(np.std(losses, ddof=1) / len(losses) ** 0.5)


def test_every_window_has_every_age(films, windows, found):
    windows = [day_of(begin) for begin in temporal_windows(films, windows)]
    expected = [(window, model) for window in windows for model in AGES]
    assert found.select("window", "model").rows() == expected


def test_half_of_the_window_calibrates_for_the_other(found):
    same = found.filter(pl.col("model") == AGES[0])
    all_of_it = found.filter(pl.col("model") == AGES[1])
    assert (same["n_calibration"] + same["n_test"]).to_list() == all_of_it["n_test"].to_list()


def test_later_items_are_unknown_and_missed():
    """All users consume new items in the last window, which no older model knows."""
    items, times, offsets = [], [], [0]
    day = 86_400_000_000
    for user in range(60):
        items += [*range(6), 6 + user % 3, *range(9, 13)]
        times += [*(np.arange(6) + user % 7), 20, *(35 + np.arange(4) + user % 3)]
        offsets.append(len(items))
    consumed = sr.Interactions.from_profiles(offsets, items, np.array(times) * day)
    found = backtest(consumed, make_scorer, TemporalSplit(10, min_users=2), epsilons=[0.1])
    last = found.filter(pl.col("window") == found["window"].max())
    renewed = last.filter(pl.col("model") != AGES[0])
    assert renewed["loss"].to_list() == [1.0] * len(renewed)
    assert renewed["unknown"].to_list() == [1.0] * len(renewed)
    refitted = last.filter(pl.col("model") == AGES[1])
    assert (refitted["floor"] + 1e-9 >= 1 / (refitted["n_calibration"] + 1)).all()
    for row in found.to_dicts():
        assert (row["size"] is None) == (row["epsilon"] + 1e-9 < row["floor"])


def test_too_short_and_too_empty_windows_are_rejected(films):
    with pytest.raises(InputError, match="less than four windows of 700 days"):
        backtest(films, make_scorer, TemporalSplit(700))
    with pytest.raises(InputError, match="no window of 60 days has 5000 users"):
        backtest(films, make_scorer, TemporalSplit(60, min_users=5000))


def test_a_fitted_scorer_is_rejected(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    with pytest.raises(sr.InputError, match="CM12 is already fitted and cannot be refitted"):
        backtest(films, fitted, TemporalSplit(DAYS))


def changed_later(films, time):
    """Return the data with other items for all users from a time on."""
    later = films.times >= time
    items = films.item_codes.copy()
    rng = np.random.default_rng(1)
    for user in range(films.n_users):
        rows = slice(films.offsets[user], films.offsets[user + 1])
        new = np.flatnonzero(later[rows]) + films.offsets[user]
        free = np.setdiff1d(np.arange(films.n_items), items[rows][~later[rows]])
        items[new] = rng.permutation(free)[: len(new)]
    return sr.Interactions(films.users, films.items, films.offsets, items, films.times)


def unchanged_by_what_comes_later(films, measure_of):
    """Return whether an early window is the same whatever users consume later.

    `measure_of` returns the measure for each data set.
    """
    days = (films.times.max() - films.times.min()) / DAY / 5.01
    windows = TemporalSplit(days, min_users=10)
    early, late = temporal_windows(films, windows)
    first, other = (
        backtest(data, measure_of(data), windows, threshold="score", epsilons=[0.2, 0.5])
        for data in (films, changed_later(films, late))
    )
    assert not first.equals(other)  # only the changed items differ
    first, other = (found.filter(window=day_of(early)) for found in (first, other))
    assert len(first) > 2
    return first.equals(other)


def test_later_interactions_change_nothing(films):
    assert unchanged_by_what_comes_later(films, lambda _: "CM12")


@pytest.fixture(scope="module")
def few():
    return sr.datasets.synthetic(n_users=160, n_items=30, n_rows=2600, drift=0.3, random_state=3)


@pytest.mark.slow
def test_the_learned_measure_uses_no_later_data(few):
    assert unchanged_by_what_comes_later(few, lambda _: "learned")


@pytest.mark.slow
def test_trees_fitted_on_all_data_are_detected(few):
    def looks_ahead(data):
        """Score past statistics by trees fitted on later data."""
        learned = LearnedModel.train(sr.count_precedence(data))

        def fit(statistics):
            then = data.users.codes(statistics.interactions.users.ids)
            return LearnedScorer(statistics, learned.renumbered(then))

        return fit

    assert not unchanged_by_what_comes_later(few, looks_ahead)
