"""The learned measure in live models: counts grow, learned parts change with a refit."""

from __future__ import annotations

import numpy as np
import pytest

import surerec as sr
from surerec.live import Live, ReplayOptions, replay
from surerec.measures import Query
from surerec.measures.learned import LearnedMeasure, LearnedModel, LearnedScorer
from surerec.measures.learned._features import EXTRAS, Features
from surerec.precedence import GrowingStatistics

_DAY = 86_400_000_000


@pytest.fixture(scope="module")
def films() -> sr.Interactions:
    return sr.datasets.synthetic(n_users=200, n_items=60, n_rows=4000, days=200, random_state=1)


@pytest.fixture(scope="module")
def learned(films) -> LearnedModel:
    return LearnedModel.train(sr.count_precedence(films))


def test_without_events_scores_equal_those_of_the_fit(films, learned) -> None:
    counts = sr.count_precedence(films)
    plain = LearnedScorer(counts, learned)
    growing = LearnedScorer(GrowingStatistics(counts), learned, ridge=plain.ridge)
    for user in range(0, 200, 17):
        query = Query.of_user(films, user)
        assert growing.score_query(query).tolist() == plain.score_query(query).tolist()


def test_new_users_and_items_are_scored(films, learned) -> None:
    counts = GrowingStatistics(sr.count_precedence(films))
    scorer = LearnedScorer(counts, learned)
    late = int(films.times.max()) + _DAY
    query = Query.of_user(films, 3)
    before = scorer.score_query(query)
    for n in range(40):  # new users consume one item after the last item of user 3
        last = films.items[int(films.consumed(3)[-1])]
        counts.add(f"9{n}", last, late)
        counts.add(f"9{n}", 777_000, late + 1)
    after = scorer.score_query(query)
    assert len(after) == len(before) + 1
    assert (after[:-1] != before).any()
    new = Query.of_user(counts.interactions, counts.interactions.users.code("90"))
    assert np.isfinite(scorer.score_query(new)).all()
    # The user's own events are left out of the score.
    others = scorer.score_query(Query(new.history, (), new.times))
    assert (others != scorer.score_query(new)).any()


def test_no_feature_depends_on_the_users_own_later_events(films) -> None:
    """Own interactions, in the fit or in later events, change no feature of the user."""
    user, late = 5, int(films.times.max()) + _DAY
    known = Query.of_user(films, user).first(6)
    rows = np.repeat(np.arange(films.n_users), np.diff(films.offsets)) != user
    rows[films.offsets[user] : films.offsets[user] + 6] = True
    counts = [GrowingStatistics(sr.count_precedence(each)) for each in (films, films.keeping(rows))]
    features = [Features(each, extras=tuple(EXTRAS)) for each in counts]
    others = [code for code in range(films.n_items) if code not in films.consumed(user)]
    for code in others[:10]:
        counts[0].add(films.users[user], films.items[code], late)
    found = [each.of(known.history, without=(user,)) for each in features]
    np.testing.assert_allclose(*found, rtol=1e-5, atol=1e-6)


def test_a_live_learned_model_is_retrained_by_a_refit(films, tmp_path) -> None:
    model = sr.PopulationConformal("learned", n_calibration=100).fit(films)
    user = films.users[4]
    with Live.create(tmp_path / "alive", model, refit=False) as live:
        late = "2024-05-01T12:00:00Z"
        done = live.observe(
            [{"user": films.users[n], "item": 900 + n % 2, "time": late} for n in range(9)]
            + [{"user": films.users[n], "item": 901 - n % 2, "time": late} for n in range(9)]
        )
        assert done.ingested == 18
        assert done.evaluated > 0
        assert "trees" in str(live.recommend(user, confidence=0.9).guarantee)
        receipt = live.forget(films.users[0])
        assert any("trees" in each for each in receipt.retained)
        live.recommend(user, confidence=0.9)
        live.refit()
        assert live.base_ == 2
        refitted = live.recommend(user, confidence=0.9)
    with Live(tmp_path / "alive") as reopened:
        assert reopened.recommend(user, confidence=0.9).items == refitted.items


def test_replay_retrains_only_after_some_days(films, monkeypatch) -> None:
    fits = []
    fit = LearnedMeasure.fit
    monkeypatch.setattr(LearnedMeasure, "fit", lambda *of: fits.append(1) or fit(*of))
    begin = int(films.times.min()) + 140 * _DAY
    how = {"renew": 15, "window": 30, "min_history": 3}
    played = replay(films, begin, "learned", options=ReplayOptions(retrain=60, **how))
    assert len(fits) == 2  # for the calibration window, and at the start
    assert played.outside[2].mean() < 0.5
