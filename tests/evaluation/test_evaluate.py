import numpy as np
import pytest

import surerec as sr
from surerec.evaluation import evaluate
from surerec.measures import MeasureScorer

DATA = sr.datasets.synthetic(n_users=80, n_items=60, n_rows=2_000, random_state=2)
COUNTS = sr.count_precedence(DATA)


def test_a_scorer_is_evaluated_like_its_recommender():
    scorer = {"scorer": MeasureScorer(COUNTS, "CM8")}
    recommender = {"recommender": sr.InductiveConformal("CM8")}
    for order in ("time", "random"):
        one = evaluate(scorer, COUNTS, n_users=30, order=order, random_state=5)
        other = evaluate(recommender, COUNTS, n_users=30, order=order, random_state=5)
        assert one.users.drop("algorithm").equals(other.users.drop("algorithm"))


def test_only_discrete_p_values_have_a_validity():
    models = {
        "a": sr.InductiveConformal("CM3"),
        "b": sr.PrecedenceMining(),
        "c": sr.TransductiveConformal("median"),
        "d": sr.InductiveConformal("CM3", smoothed=True),
    }
    found = evaluate(models, DATA, n_users=20)
    assert set(found.validity()["algorithm"]) == {"a", "c"}


def test_a_scorer_that_knows_the_future_is_perfect():
    class Scores:
        def __init__(self, found):
            self.found = found

        def score(self, history, *, without_user=None):
            scores = np.zeros(DATA.n_items)
            scores[DATA.consumed(without_user)] = self.found
            scores[history] = 0.0
            return scores

    means = evaluate({"prophet": Scores(1.0), "nothing": Scores(0.0)}, DATA, n_users=20).metrics()
    auc = dict(means.filter(metric="auc").select("algorithm", "mean").iter_rows())
    assert auc == {"prophet": 1.0, "nothing": 0.5}


def test_invalid_input_is_rejected():
    with pytest.raises(sr.InputError, match="algorithms is empty"):
        evaluate({}, DATA)
    given = sr.PrecedenceStatistics.from_counts([[0, 1], [0, 0]], [1, 1], 1)
    with pytest.raises(sr.InputError, match="no user can be evaluated"):
        evaluate({"a": sr.PrecedenceMining()}, given)
