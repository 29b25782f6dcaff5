"""Over the calendar, nothing that happens later has a part in a score."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec._words import DAY, day_of
from surerec.audit import audit
from surerec.calibration import observe, profile_cases, window_cases
from surerec.errors import InputError
from surerec.evaluation import AGES, Calendar, backtest, calendar_windows, observe_as_of
from surerec.measures import MeasureScorer, Scorer
from surerec.measures.learned import LearnedMeasure, LearnedScorer

DAYS = 120
EPSILON = 0.2


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9000, drift=0.5, seed=3)


def make_scorer(statistics):
    return MeasureScorer(statistics, "CM12")


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


@pytest.fixture(scope="module")
def moments(films):
    """When the windows begin, those that only calibrate among them."""
    begins = calendar_windows(films, Calendar(DAYS))
    return {*begins, *(begin - back * DAYS * DAY for begin in begins for back in (1, 2))}


class Watched(Scorer):
    """CM12 that knows up to when it was fitted, and notes when it is asked."""

    def __init__(self, statistics, asked):
        self._scorer = MeasureScorer(statistics, "CM12")
        self._asked = asked
        self._until = int(statistics.interactions.times.max())

    def score_query(self, query):
        self._asked.append((self._until, query.moment))
        return self._scorer.score_query(query)


def of_windows(asked, moments):
    return [(until, moment) for until, moment in asked if moment in moments]


def test_a_backtest_asks_only_what_was_fitted_before(films, moments):
    asked = []
    backtest(films, lambda statistics: Watched(statistics, asked), Calendar(DAYS))
    assert len(of_windows(asked, moments)) == len(asked) > 100
    assert all(until < moment for until, moment in asked)


def test_an_audit_of_a_recommender_refits_its_recipe(films, moments):
    asked = []
    model = sr.PopulationConformal(lambda statistics: Watched(statistics, asked)).fit(films)
    asked.clear()
    audit(model, n_users=60, window=DAYS)
    windows = of_windows(asked, moments)
    assert len(windows) > 100
    assert all(until < moment for until, moment in windows)
    assert {until for until, _ in windows} < {until for until, _ in asked}  # and once on all


def test_what_comes_fitted_is_refused(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    with pytest.raises(sr.InputError, match="CM12 comes fitted and cannot be fitted"):
        backtest(films, fitted, Calendar(DAYS))
    found = audit(films, fitted, n_users=40, window=DAYS)
    assert found.calendar is None
    assert any(
        "The calendar is left out: the scorer CM12 comes fitted" in why for why in found.skipped
    )


def test_point_in_time_asks_only_what_was_fitted_before(films):
    asked = []
    cases = profile_cases(films, 0.4)
    found = observe_as_of(lambda statistics: Watched(statistics, asked), cases, n_blocks=5)
    assert len(asked) == len(found.outcomes)
    assert len(asked) + found.n_early == len(cases)
    assert all(until < moment for until, moment in asked)
    assert len({until for until, _ in asked}) == len(found.begins) == 5


def changed_later(films, time):
    """The same data, but for what everybody took from an instant on."""
    later = films.times >= time
    items = films.items_taken.copy()
    chance = np.random.default_rng(1)
    for user in range(films.n_users):
        rows = slice(films.offsets[user], films.offsets[user + 1])
        new = np.flatnonzero(later[rows]) + films.offsets[user]
        free = np.setdiff1d(np.arange(films.n_items), items[rows][~later[rows]])
        items[new] = chance.permutation(free)[: len(new)]
    return sr.Interactions(films.users, films.items, films.offsets, items, films.times)


def test_what_others_do_later_changes_nothing(films):
    cases = profile_cases(films, 0.4)
    found = observe_as_of("CM12", cases, n_blocks=4, keep_candidates=True)
    time = found.begins[2]
    again = changed_later(films, time)
    other = observe_as_of("CM12", profile_cases(again, 0.4), n_blocks=4, keep_candidates=True)
    moments = films.times[found.outcomes.cases.known_stops - 1]
    # The known part of a case may lie in the block before it, the counts never do.
    early = moments < time
    assert 50 < early.sum() < len(moments)
    np.testing.assert_array_equal(
        other.outcomes.candidate_shares[early], found.outcomes.candidate_shares[early]
    )
    assert not np.array_equal(other.outcomes.candidate_shares, found.outcomes.candidate_shares)
    # By counts of all of the data they are others: the look-ahead that this is for.
    plain = [
        observe(
            MeasureScorer(counts := sr.count_precedence(data), "CM12"),
            counts,
            profile_cases(data, 0.4),
            keep_candidates=True,
        ).candidate_shares
        for data in (films, again)
    ]
    assert not np.array_equal(*(each[:, :20] for each in plain))


def test_what_cannot_be_judged_is_said(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    with pytest.raises(sr.InputError, match="CM12 comes fitted"):
        observe_as_of(fitted, profile_cases(films, 0.4))
    at_once = sr.Interactions(
        films.users, films.items, films.offsets, films.items_taken, np.zeros_like(films.times)
    )
    with pytest.raises(sr.InputError, match="nothing was known before"):
        observe_as_of("CM12", profile_cases(at_once, 0.4))
    assert "was new to all" in observe_as_of("CM12", profile_cases(films, 0.4)).in_words()


def unchanged_by_what_comes_later(films, recipe_of):
    """Tell whether the scores of early cases are the same whatever everybody takes afterwards.

    `recipe_of` gives what is fitted, for each data set.
    """
    cases = profile_cases(films, 0.4)
    time = int(np.quantile(films.times[cases.known_stops - 1], 0.8))
    shares = []
    for data in (films, changed_later(films, time)):
        found = observe_as_of(
            recipe_of(data), profile_cases(data, 0.4), n_blocks=1, keep_candidates=True
        ).outcomes
        early = films.times[found.cases.known_stops - 1] < time
        assert 20 < early.sum() < len(early)
        shares.append(found.candidate_shares[early])
    return np.array_equal(*shares)


@pytest.fixture(scope="module")
def few():
    return sr.datasets.synthetic(n_users=160, n_items=30, n_rows=2600, drift=0.3, seed=3)


def test_the_learned_measure_is_learned_from_nothing_later(few):
    assert unchanged_by_what_comes_later(few, lambda _: "learned")


def test_trees_that_were_grown_on_all_of_the_data_are_found(few):
    def looks_ahead(data):
        """Count up to then, and score by trees that learned from what followed."""
        learned = LearnedMeasure.train(sr.count_precedence(data))

        def fit(statistics):
            then = data.users.codes(statistics.interactions.users.ids)
            return LearnedScorer(statistics, learned.renumbered(then))

        return fit

    assert not unchanged_by_what_comes_later(few, looks_ahead)
