"""Nothing learned from later data scores an earlier window, in backtests and in audits."""

import pytest

import surerec as sr
from surerec._calendar import DAY
from surerec.audit import audit
from surerec.evaluation import Calendar, backtest, calendar_windows
from surerec.measures import MeasureScorer, Scorer
from surerec.measures.learned import LearnedMeasure, LearnedScorer

DAYS = 90


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=7_000, drift=0.3, seed=3)


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


@pytest.mark.parametrize("kind", [sr.InductiveConformal, sr.PopulationConformal])
def test_an_audit_of_what_was_learned_trains_anew(films, moments, kind, monkeypatch):
    model = kind("learned").fit(films)
    trained, asked = {}, []
    train = LearnedMeasure.train
    score, score_many = LearnedScorer.score_query, LearnedScorer.score_many

    def watched_train(statistics, **settings):
        learned = train(statistics, n_users=40, **settings)
        trained[id(learned)] = learned, int(statistics.interactions.times.max())
        return learned

    def note(scorer, queries):
        _, until = trained.get(id(scorer.learned), (None, int(films.times.max())))
        asked.extend((until, query.moment) for query in queries)

    def watched_score(scorer, query):
        note(scorer, [query])
        return score(scorer, query)

    def watched_many(scorer, queries):
        note(scorer, queries)
        return score_many(scorer, queries)

    monkeypatch.setattr(LearnedMeasure, "train", watched_train)
    monkeypatch.setattr(LearnedScorer, "score_query", watched_score)
    monkeypatch.setattr(LearnedScorer, "score_many", watched_many)
    found = audit(model, n_users=40, window=DAYS)
    windows = of_windows(asked, moments)
    assert len(trained) > 3
    assert len(windows) > 100
    assert all(until < moment for until, moment in windows)
    assert any(kind.startswith("calendar") for kind in found.coverage["kind"])


def test_what_comes_fitted_is_refused(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    with pytest.raises(sr.InputError, match="CM12 comes fitted and cannot be fitted"):
        backtest(films, fitted, Calendar(DAYS))
    learned = LearnedMeasure.train(sr.count_precedence(films), n_users=40)
    with pytest.raises(sr.InputError, match="learned comes fitted"):
        backtest(films, learned, Calendar(DAYS))
    found = audit(films, fitted, n_users=40, window=DAYS)
    assert found.calendar is None
    assert any(
        "The calendar is left out: the scorer CM12 comes fitted" in why for why in found.skipped
    )
