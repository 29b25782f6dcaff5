import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec._calendar import day_of
from surerec.errors import InputError
from surerec.evaluation import AGES, Calendar, backtest, calendar_windows
from surerec.futures import window_cases
from surerec.measures import MeasureScorer

DAYS = 120
EPSILON = 0.2


def make_scorer(statistics):
    return MeasureScorer(statistics, "CM12")


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9000, drift=0.5, seed=3)


@pytest.fixture(scope="module")
def calendar():
    return Calendar(DAYS, n_users=10_000, min_users=5)


@pytest.fixture(scope="module")
def found(films, calendar):
    return backtest(films, make_scorer, calendar, epsilons=[EPSILON])


def test_windows_lie_within_the_data_with_three_before_them(films, calendar):
    begins = calendar_windows(films, calendar)
    assert begins[-1] + calendar.length == films.times.max() + 1
    assert np.diff(begins).tolist() == [calendar.length] * (len(begins) - 1)
    assert begins[0] - 3 * calendar.length >= films.times.min()
    assert begins[0] - 4 * calendar.length < films.times.min()


def losses_by_hand(films, counted_until, begin, end, cut):
    """Rank every future of the window with counts up to a date, the slow way."""
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
        losses.append(np.mean([rank > cut or rank == np.inf for rank in ranks]))
    return losses


@pytest.mark.parametrize("model", ["recalibrated and recounted", "one window old"])
def test_rows_are_those_of_recalibrating_by_hand(films, calendar, found, model):
    begin, w = calendar_windows(films, calendar)[-1], calendar.length
    by_hand = sr.PopulationConformal("CM12", cut="rank", n_calibration=10_000)
    by_hand.fit(films.until(begin - w)).recalibrate(films.until(begin))
    cut = by_hand.calibration_.curve("miss-rate").cut(EPSILON)
    counted = begin if model == "recalibrated and recounted" else begin - w
    losses = losses_by_hand(films, counted, begin, begin + w, cut)
    row = found.filter(pl.col("window") == day_of(begin), pl.col("model") == model)
    assert row["loss"].item() == pytest.approx(np.mean(losses))
    assert row["n_test"].item() == len(losses)
    assert row["n_calibration"].item() == len(by_hand.calibration_)
    assert row["loss_se"].item() == pytest.approx(np.std(losses, ddof=1) / len(losses) ** 0.5)


def test_every_window_has_every_age(films, calendar, found):
    windows = [day_of(begin) for begin in calendar_windows(films, calendar)]
    assert found["window"].unique(maintain_order=True).to_list() == windows
    for window in windows:
        assert found.filter(pl.col("window") == window)["model"].to_list() == list(AGES)


def test_half_of_the_window_calibrates_for_the_other(found):
    same = found.filter(pl.col("model") == AGES[0])
    all_of_it = found.filter(pl.col("model") == AGES[1])
    assert (same["n_calibration"] + same["n_test"]).to_list() == all_of_it["n_test"].to_list()


def test_a_model_that_nobody_could_calibrate_is_left_out(films):
    lonely = films.until(int(np.quantile(films.times, 0.6)))
    every = backtest(lonely, make_scorer, Calendar(60, min_users=2), epsilons=[EPSILON])
    some = backtest(lonely, make_scorer, Calendar(60, min_users=60), epsilons=[EPSILON])
    assert len(some) < len(every)
    # Halves of at least 60 people are at least 30.
    assert some.select(pl.min_horizontal("n_test", "n_calibration").min()).item() >= 30


def test_items_that_came_up_later_are_unknown_and_missed():
    """Everybody takes new items in the last window: no older model has them."""
    items, times, offsets = [], [], [0]
    day = 86_400_000_000
    for user in range(60):
        items += [*range(6), 6 + user % 3, *range(9, 13)]
        times += [*(np.arange(6) + user % 7), 20, *(35 + np.arange(4) + user % 3)]
        offsets.append(len(items))
    taken = sr.Interactions.from_profiles(offsets, items, np.array(times) * day)
    found = backtest(taken, make_scorer, Calendar(10, min_users=2), epsilons=[0.1])
    last = found.filter(pl.col("window") == found["window"].max())
    renewed = last.filter(pl.col("model") != AGES[0])
    assert renewed["loss"].to_list() == [1.0] * len(renewed)
    assert renewed["unknown"].to_list() == [1.0] * len(renewed)
    recounted = last.filter(pl.col("model") == AGES[1])
    assert (recounted["floor"] + 1e-9 >= 1 / (recounted["n_calibration"] + 1)).all()
    for row in found.to_dicts():
        assert (row["size"] is None) == (row["epsilon"] + 1e-9 < row["floor"])


def test_too_short_and_too_empty_calendars_are_refused(films):
    with pytest.raises(InputError, match="too few for windows of 700 days"):
        backtest(films, make_scorer, Calendar(700))
    with pytest.raises(InputError, match="in no window of 60 days did 5000 users"):
        backtest(films, make_scorer, Calendar(60, min_users=5000))


def test_the_score_cut_and_hits_can_be_tested_too(films, calendar):
    found = backtest(
        films, make_scorer, calendar, cut="score", promise="hit", epsilons=[0.1, 0.5], n_windows=1
    )
    assert found["window"].n_unique() == 1
    assert (
        found.filter(pl.col("epsilon") == 0.1)["size"].to_list()
        > found.filter(pl.col("epsilon") == 0.5)["size"].to_list()
    )
