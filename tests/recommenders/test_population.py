from datetime import UTC, datetime, timedelta

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.conformal import RiskCurve
from surerec.errors import InputError
from surerec.measures import MeasureScorer
from tests.served import served_cases


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9_000, drift=0.4, random_state=2)


@pytest.fixture(scope="module")
def counts(films):
    return sr.count_precedence(films)


@pytest.mark.parametrize("guarantee", ["recall", "hit"])
@pytest.mark.parametrize("threshold", ["rank", "score"])
@pytest.mark.parametrize("n_segments", [1, 3])
def test_the_guarantee_holds_for_users_who_did_not_calibrate(
    films, counts, guarantee, threshold, n_segments
):
    """Half of the users calibrate, the others are served; a bias of 0.05 would fail."""
    horizon = 0.4 if guarantee == "recall" else 5
    losses = []
    for random_state in range(6):
        model = sr.PopulationConformal(
            "CM12",
            guarantee=guarantee,
            horizon=horizon,
            threshold=threshold,
            segments=n_segments,
            n_calibration=190,
            random_state=random_state,
        ).fit(counts)
        cases = profile_cases(films, horizon)
        others = cases[~np.isin(cases.users, model.calibration_.users)]
        for _, missed in served_cases(model, others, "user", "history", significance=0.2):
            losses.append(missed if guarantee == "recall" else float(missed == 1))
    assert 0.2 - 0.045 < np.mean(losses) < 0.2 + 0.03


@pytest.mark.parametrize("threshold", ["rank", "score"])
def test_a_set_is_what_the_risk_curve_cuts(films, counts, threshold):
    model = sr.PopulationConformal("CM8", threshold=threshold).fit(counts)
    outcomes = observe(MeasureScorer(counts, "CM8"), counts, profile_cases(films, 0.4))
    entries = outcomes.ranks if threshold == "rank" else -outcomes.shares
    curve = RiskCurve.of_shares(entries, outcomes.owners, len(outcomes))
    history = films.items.ids[[3, 7, 11, 20, 31, 40]].to_list()
    scores = MeasureScorer(counts, "CM8").score(films.items.codes(history))
    rest = [code for code in range(counts.n_items) if films.items[code] not in history]
    order = sorted(rest, key=lambda code: (-scores[code], code))
    for epsilon in (0.1, 0.25, 0.5):
        at = curve.threshold(epsilon)
        if threshold == "rank":
            expected = order[: int(at)]
        else:
            total = sum(scores[code] for code in rest)
            expected = [code for code in order if -scores[code] / total <= at + 1e-12]
        picks = model.recommend(history=history, significance=epsilon)
        assert picks.items == films.items.ids.gather(expected).to_list()
        assert picks.to_frame()["rank"].to_list() == list(range(1, len(expected) + 1))


def test_calibration_users_are_served_without_their_own_future(films, counts):
    """A calibration user's sets are those of calibrating without them."""
    model = sr.PopulationConformal("CM12", threshold="rank", n_calibration=60).fit(counts)
    code = int(model.calibration_.users[17])
    cases = profile_cases(films, 0.4).sample(60, 0)
    others = cases[cases.users != code]
    outcomes = observe(MeasureScorer(counts, "CM12"), counts, others)
    curve = RiskCurve.of_shares(outcomes.ranks, outcomes.owners, len(outcomes))
    sizes = [len(model.recommend(films.users[code], significance=e)) for e in (0.1, 0.2, 0.3, 0.5)]
    assert sizes == [int(min(curve.threshold(e), 79)) for e in (0.1, 0.2, 0.3, 0.5)]


def test_a_window_is_a_temporal_split(films):
    model = sr.PopulationConformal("CM12", window=120, horizon=5).fit(films)
    first, last = model.calibration_.period
    assert films.times.max() - 120 * 86_400_000_000 < first < last <= films.times.max()
    picks = model.recommend(history=films.items.ids[:8].to_list(), confidence=0.8)
    assert "of the next 5 items new to the user within 120 days" in str(picks.guarantee)


def test_a_model_knows_its_age(films):
    model = sr.PopulationConformal("CM12", window=120).fit(films)
    inside = model.model_.valid_until - timedelta(days=1)
    assert timedelta(days=118) < model.age(inside) < timedelta(days=121)
    assert model.age(datetime(2030, 1, 1, tzinfo=UTC)) > timedelta(days=2_000)
    assert sr.PopulationConformal("CM12").fit(films).model_.valid_until is None


def test_recalibrating_is_calibrating_on_what_came_later(films):
    middle = int(np.quantile(films.times, 0.7))
    old = sr.PopulationConformal("CM12", threshold="rank").fit(films.until(middle))
    before = old.statistics_
    renewed = old.recalibrate(films, refit=False)
    assert renewed.statistics_ is before
    assert renewed.calibration_.period[0] >= middle
    refit = sr.PopulationConformal("CM12", threshold="rank").fit(films.until(middle))
    refit.recalibrate(films)
    assert refit.statistics_.interactions.n_rows == films.n_rows
    assert refit.calibration_.entries.tolist() == renewed.calibration_.entries.tolist()
    with pytest.raises(InputError, match="There are no interactions after"):
        refit.recalibrate(films)


def test_recalibrating_on_data_with_new_items_and_users(films):
    """Read from a file again, codes differ and unknown items come in."""
    middle = int(np.quantile(films.times, 0.6))
    past = films.to_frame().filter(films.to_frame()["datetime"].to_physical() < middle)
    few = past["item_id"].unique().sort()[:60]
    model = sr.PopulationConformal("CM12", threshold="rank").fit(
        sr.read_interactions(past.filter(pl.col("item_id").is_in(few.to_list())))
    )
    model.recalibrate(sr.read_interactions(films.to_frame()), refit=False)
    assert 0 < model.calibration_.unknown_share < 1
    picks = model.recommend(history=few[:8].to_list(), confidence=0.97)
    assert "unknown to the model" in str(picks.guarantee)
    assert picks.everything_qualifies


def test_impossible_data_is_refused():
    with pytest.raises(InputError, match="no users: there are no calibration users"):
        sr.PopulationConformal().fit(
            sr.PrecedenceStatistics.from_counts([[0, 2], [1, 0]], [3, 3], n_users=3)
        )


def test_recalibrating_keeps_the_trees_and_the_folds(films):
    middle = int(np.quantile(films.times, 0.7))
    frame = films.to_frame()
    past = sr.read_interactions(frame.filter(frame["datetime"].to_physical() < middle))
    model = sr.PopulationConformal("learned").fit(past)
    before = dict(zip(past.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    trees = model.scorer_.learned.folds
    newer = sr.read_interactions(frame.sort("item_id"))
    model.recalibrate(newer)
    assert model.scorer_.learned.folds == trees
    after = dict(zip(newer.users.ids, model.scorer_.learned.fold_of.tolist(), strict=True))
    assert {user: fold for user, fold in after.items() if fold >= 0} == before
    model.recommend(newer.users[0], confidence=0.8)
