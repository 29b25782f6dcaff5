"""Judged as of then, nothing that happened later has a part in a score."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.evaluation import observe_as_of
from surerec.measures import MeasureScorer, Scorer
from surerec.measures.learned import LearnedMeasure, LearnedScorer


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, drift=0.3, seed=3)


class Watched(Scorer):
    """CM12 that knows up to when it was fitted, and notes when it is asked."""

    def __init__(self, statistics, asked):
        self._scorer = MeasureScorer(statistics, "CM12")
        self._asked = asked
        self._until = int(statistics.interactions.times.max())
        assert (statistics.support > 0).all()  # what was still to come is not there
        assert (np.diff(statistics.interactions.offsets) > 0).all()

    def score_query(self, query):
        self._asked.append((self._until, query.moment))
        return self._scorer.score_query(query)


def test_only_what_was_counted_before_is_asked(films):
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


def test_items_are_told_by_their_own_codes_and_new_ones_as_unknown(films):
    found = observe_as_of("CM12", profile_cases(films, 0.4), n_blocks=3).outcomes
    for case in (0, len(found) - 1):
        items = found.items[found.owners == case]
        assert np.isin(items[items >= 0], found.cases.future(case)).all()
    assert (found.items[np.isinf(found.ranks)] == -1).all()


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


def test_features_that_were_counted_from_all_of_the_data_are_found(few, monkeypatch):
    monkeypatch.setattr(sr.Interactions, "only", lambda interactions, _: interactions)
    assert not unchanged_by_what_comes_later(few, lambda _: "learned")


def test_what_is_new_is_counted_by_user_as_the_guarantee_is(films):
    """Users with long profiles alone consume items that are new, so that pooling them differs."""
    rows = films.to_frame().with_row_index()
    new = (pl.len().over("user_id") > 20) & (pl.col("index") % 2 == 0)
    late = pl.col("datetime") > pl.col("datetime").median()
    item = pl.when(new & late).then(pl.format("new {}", "index")).otherwise("item_id")
    data = sr.read_interactions(
        rows.select("user_id", item.cast(pl.String).alias("item_id"), "datetime")
    )
    found = observe_as_of("CM12", profile_cases(data, 0.4), n_blocks=3)
    unknown = np.isinf(found.outcomes.ranks)
    by_user = [unknown[found.outcomes.owners == user].mean() for user in range(len(found.outcomes))]
    assert found.unknown == pytest.approx(np.mean(by_user))
    assert abs(found.unknown - unknown.mean()) > 0.01
    assert f"{np.mean(by_user):.1%} of what a user consumed next was new" in found.in_words()
