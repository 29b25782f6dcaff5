import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.errors import InputError
from surerec.evaluation import evaluate
from surerec.measures import MeasureScorer


def verdicts(found):
    return {verdict.kind: verdict.verdict for verdict in found.verdicts}


def test_all_guarantees_hold_on_exchangeable_data(exchangeable):
    found = audit(exchangeable, n_users=400)
    verdict_of = verdicts(found)
    assert verdict_of["item-time"] == verdict_of["item-random"] == "holds"
    assert (
        verdict_of["recall-rank"] == verdict_of["recall-score"] == verdict_of["hit-rank"] == "holds"
    )
    assert "both hold here" in found.overall
    assert not found.drift["drift"].any()


def test_only_the_user_level_guarantee_holds_on_drifting_data(drifted):
    verdict_of = verdicts(drifted)
    assert verdict_of["item-time"] == "does not hold"
    assert verdict_of["recall-rank"] == verdict_of["recall-score"] == "holds"
    assert "use the user-level guarantee" in drifted.overall
    drift = dict(drifted.drift.group_by("order").agg(pl.col("drift").all()).iter_rows())
    assert drift == {"time order": True, "random order": False}


@pytest.mark.parametrize("order", ["time", "random"])
def test_item_level_coverage_equals_the_evaluation(drifting, drifted, order):
    models = {"ICRS12": sr.InductiveConformal("CM12")}
    expected = evaluate(models, drifting, n_users=400, order=order).validity()
    observed = drifted.coverage.filter(kind=f"item-{order}")
    both = observed.join(expected.with_columns(pl.col("epsilon").round(2)), on="epsilon")
    assert len(both) == 5
    np.testing.assert_allclose(1 - both["observed"], both["validity_error"])
    np.testing.assert_allclose(both["size"], both["set_size"])


def test_segments_average_to_the_total(drifted):
    weighted = pl.col("observed", "size") * pl.col("n_users") / pl.col("n_users").sum()
    parts = drifted.segments.filter(by="known items").group_by("kind", "epsilon")
    sums = parts.agg(pl.col("n_users").sum(), weighted.sum().name.suffix("_mean"))
    both = sums.join(drifted.coverage, on=["kind", "epsilon"])
    assert set(both["kind"]) == {"item-time", "recall-rank", "recall-score"}
    assert both["n_users"].to_list() == both["n"].to_list()
    np.testing.assert_allclose(both["observed_mean"], both["observed"])
    np.testing.assert_allclose(both["size_mean"], both["size"])


def test_any_scorer_can_be_audited(drifting):
    made = []

    def make_scorer(statistics):
        made.append(statistics)
        return MeasureScorer(statistics, "CM3")

    by_scorer = audit(drifting, make_scorer, name="mine", n_users=60, window=120)
    by_name = audit(drifting, "CM3", n_users=60, window=120)
    assert by_scorer.subject == "mine"
    assert by_scorer.coverage.equals(by_name.coverage)
    assert len({id(statistics) for statistics in made}) > 2  # one for each window


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (sr.InductiveConformal("CM3", smoothed=True), {"item-time", "recall-score", "hit-rank"}),
        (sr.TransductiveConformal(), {"item-time", "recall-rank", "hit-rank"}),
        (sr.PrecedenceMining(), {"recall-rank", "hit-rank"}),
        (sr.PopulationConformal("CM12", window=100, horizon=0.3), {"item-time", "temporal-1"}),
    ],
)
def test_recommenders_are_audited_with_their_settings(drifting, model, kinds):
    found = audit(model.fit(drifting), n_users=60)
    assert kinds <= set(verdicts(found))
    assert found.subject == model.name_
    if "confidence" not in model.model_.features:
        assert any("has no p-values" in sentence for sentence in found.skipped)
        assert "item-time" not in verdicts(found)
    if isinstance(model, sr.PopulationConformal):
        assert (found.settings["window"], found.settings["horizon"]) == (100, 0.3)


def test_data_without_times_are_audited_without_time_order(exchangeable):
    frozen = sr.Interactions.from_profiles(
        exchangeable.offsets, exchangeable.item_codes, np.zeros(exchangeable.n_rows, dtype=int)
    )
    found = audit(frozen, n_users=100)
    verdict_of = verdicts(found)
    assert not any(kind.startswith(("item-time", "temporal")) for kind in verdict_of)
    assert set(found.drift["order"]) == {"random order"}
    assert found.skipped[0].startswith("Time order, drift and the temporal split")
    assert "the user-level guarantee has" in found.overall


def test_invalid_arguments_raise(drifting):
    few = sr.datasets.synthetic(n_users=12, n_items=40, n_rows=300, length_spread=0, random_state=1)
    counts = sr.PrecedenceStatistics.from_counts(np.zeros((3, 3), int), np.ones(3, int), 5)
    for data, arguments, message in (
        (drifting, {"n_users": 5}, "n_users is 5"),
        (drifting, {"window": 0.1}, "window is 0.1"),
        (drifting, {"measure": "CM99"}, "CM99"),
        (drifting, {"random_state": -1}, "random_state is -1"),
        (few, {}, "needs 20 users with 10 items or more; these data have 12 users"),
        ("ml-100k", {}, "Pass Interactions"),
        (counts, {}, "no users: an audit needs users"),
    ):
        with pytest.raises(InputError, match=message):
            audit(data, **arguments)
