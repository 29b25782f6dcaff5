import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.calibration import Ranking, observe, profile_cases
from surerec.errors import InputError
from surerec.measures import MeasureScorer


@given(st.lists(st.integers(0, 4), min_size=1, max_size=40), st.data())
def test_candidates_are_ranked_by_score_and_then_by_popularity(scores, data):
    some = st.lists(st.integers(0, len(scores) - 1), unique=True, min_size=1)
    candidates = sorted(data.draw(some))
    popularity = data.draw(st.permutations(range(len(scores))))
    values = np.array(scores, dtype=float)
    found = Ranking.of(np.array(candidates), values, values, np.array(popularity))
    order = sorted(candidates, key=lambda code: (-scores[code], popularity[code]))
    assert found.items.tolist() == order
    assert (np.diff(found.shares) < 0).all()  # equal scores too are told apart, by rank
    at = found.places(np.arange(len(scores)), len(scores))
    assert at[order].tolist() == list(range(len(order)))
    assert (at < 0).sum() == np.isinf(found.entries("rank")[at]).sum() == len(scores) - len(order)
    assert found.shares.sum() == pytest.approx(1, abs=1e-6)
    best, mass = found.of_the_best()
    for k in (1, 3, 100):
        assert best[k - 1] == pytest.approx(np.mean([scores[code] for code in order[:k]]))
        assert mass[k - 1] == pytest.approx(found.shares[:k].sum())


@pytest.fixture(scope="module")
def films():
    """Twenty users have an item of their own in their history, and one that they consume next."""
    made = sr.datasets.synthetic(n_users=120, n_items=50, n_rows=2400, random_state=5).to_frame()
    own = made.filter(pl.col("user_id").is_in(made["user_id"].unique().sort()[:20].implode()))
    first = own.group_by("user_id").agg(pl.col("datetime").min())
    last = own.group_by("user_id").agg(pl.col("datetime").max() + pl.duration(days=1))
    singles = [
        some.with_columns(item_id=pl.col("user_id").cast(pl.Int64) + code)
        for some, code in ((first, 10_000), (last, 20_000))
    ]
    columns = ["user_id", "item_id", "datetime"]
    frames = [each.select(pl.col(c).cast(made[c].dtype) for c in columns) for each in singles]
    return sr.read_interactions(pl.concat([made.select(columns), *frames]), time="datetime")


@pytest.mark.parametrize("measure", ["CM3", "CM12", "NCM15"])
def test_outcomes_are_those_of_scoring_without_the_user(films, measure):
    counts = sr.count_precedence(films)
    scorer = MeasureScorer(counts, measure)
    cases = profile_cases(films, 0.4)
    found = observe(scorer, counts, cases, keep_candidates=True)
    for case in range(0, len(cases), 7):
        known, future = cases.known(case), cases.future(case)
        others = counts.without_user(int(cases.users[case]))
        scores = MeasureScorer(others, measure).score(known[others.support[known] > 0])
        rest = [c for c in np.flatnonzero(others.support).tolist() if c not in set(known.tolist())]
        order = sorted(rest, key=lambda code: (-scores[code], others.popularity[code]))
        here = found.owners == case
        ranks = [order.index(item) + 1 if item in rest else np.inf for item in future]
        assert found.items[here].tolist() == [i if i in rest else -1 for i in future.tolist()]
        assert found.ranks[here].tolist() == ranks
        assert found.n_candidates[case] == len(rest)
        shares = found.candidate_shares[case, : len(rest)]
        assert shares.sum() == pytest.approx(1, abs=1e-4)
        assert np.isin(found.shares[here & np.isfinite(found.ranks)], shares).all()


def test_what_the_statistics_do_not_know_is_in_no_set(films):
    middle = int(np.median(films.times))
    past = sr.count_precedence(films.until(middle))
    cases = profile_cases(films, 0.4)
    found = observe(MeasureScorer(past, "CM12"), past, cases)
    others = [past.without_user(int(user)).support for user in found.cases.users]
    unknown = np.concatenate([each[found.cases.future(c)] for c, each in enumerate(others)]) == 0
    assert (np.isinf(found.ranks) == unknown).all()
    assert (found.items[unknown] == -1).all()


def test_cases_of_other_data_are_looked_up_by_id(films):
    """The same people under other codes, with an item and a user that the model does not know."""
    frame = films.to_frame().sort("item_id", "user_id")
    again = sr.read_interactions(frame)
    counts = sr.count_precedence(films)
    scorer = MeasureScorer(counts, "CM12")
    here = observe(scorer, counts, profile_cases(films, 3))
    there = observe(scorer, counts, profile_cases(again, 3))
    mine = dict(zip(films.users.ids.gather(here.cases.users), range(len(here)), strict=True))
    for case, user in enumerate(again.users.ids.gather(there.cases.users)):
        assert (
            there.ranks[there.owners == case].tolist()
            == here.ranks[here.owners == mine[user]].tolist()
        )


def test_scores_that_are_not_numbers_are_refused(films):
    class Broken:
        def score(self, history, *, without_user=None):  # noqa: ARG002
            return np.full(films.n_items, np.nan)

    with pytest.raises(InputError, match="Broken returned 90 scores that are not numbers"):
        observe(Broken(), sr.count_precedence(films), profile_cases(films, 3))
