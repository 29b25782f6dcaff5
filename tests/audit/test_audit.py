import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.errors import InputError
from surerec.evaluation import evaluate
from surerec.measures import MeasureScorer
from tests.audit import audited_data


@pytest.fixture(scope="module")
def drifting():
    return audited_data.drifting()


@pytest.fixture(scope="module")
def moved():
    return audited_data.moved()


def verdicts(found):
    return {verdict.kind: verdict.verdict for verdict in found.verdicts}


def test_where_items_are_exchangeable_their_guarantee_holds():
    calm = audited_data.calm()
    said = verdicts(calm)
    assert said["item-time"] == said["item-random"] == "holds"
    assert said["miss-rank"] == said["miss-score"] == said["hit-rank"] == "holds"
    assert "both hold here" in calm.overall
    assert not calm.drift["drift"].any()


def test_where_taste_drifts_only_the_user_level_guarantee_holds(moved):
    said = verdicts(moved)
    assert said["item-time"] == "does not hold"
    assert said["miss-rank"] == said["miss-score"] == "holds"
    assert "use the user-level guarantee" in moved.overall
    drift = dict(moved.drift.group_by("order").agg(pl.col("drift").all()).iter_rows())
    assert drift == {"in time order": True, "in random order": False}


@pytest.mark.parametrize("order", ["time", "random"])
def test_item_level_numbers_are_those_of_the_evaluation(drifting, moved, order):
    models = {"ICRS12": sr.InductiveConformal("CM12")}
    theirs = evaluate(models, drifting, n_users=400, order=order).validity()
    mine = moved.coverage.filter(kind=f"item-{order}")
    both = mine.join(theirs.with_columns(pl.col("epsilon").round(2)), on="epsilon")
    assert len(both) == 5
    np.testing.assert_allclose(1 - both["observed"], both["validity_error"])
    np.testing.assert_allclose(both["size"], both["set_size"])


def test_groups_of_users_sum_up_to_everyone(moved):
    weighted = pl.col("observed", "size") * pl.col("n_users") / pl.col("n_users").sum()
    parts = moved.groups.filter(by="known items").group_by("kind", "epsilon")
    sums = parts.agg(pl.col("n_users").sum(), weighted.sum().name.suffix("_mean"))
    both = sums.join(moved.coverage, on=["kind", "epsilon"])
    assert set(both["kind"]) == {"item-time", "miss-rank", "miss-score"}
    assert both["n_users"].to_list() == both["n"].to_list()
    np.testing.assert_allclose(both["delivered_mean"], both["observed"])
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
    assert len({id(statistics) for statistics in made}) > 2  # one for each date


@pytest.mark.parametrize(
    ("model", "kinds"),
    [
        (sr.InductiveConformal("CM3", smoothed=True), {"item-time", "miss-score", "hit-rank"}),
        (sr.TransductiveConformal(), {"item-time", "miss-rank", "hit-rank"}),
        (sr.PrecedenceMining(), {"miss-rank", "hit-rank"}),
        (sr.PopulationConformal("CM12", window=100, horizon=0.3), {"item-time", "calendar-1"}),
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


def test_profiles_without_times_say_so_and_promise_nothing_about_time():
    exchangeable = audited_data.exchangeable()
    frozen = sr.Interactions.from_profiles(
        exchangeable.offsets, exchangeable.item_codes, np.zeros(exchangeable.n_rows, dtype=int)
    )
    found = audit(frozen, n_users=100)
    said = verdicts(found)
    assert not any(kind.startswith(("item-time", "calendar")) for kind in said)
    assert set(found.drift["order"]) == {"in random order"}
    assert "nothing is said about time order" in found.skipped[0]
    assert "the user-level guarantee delivers" in found.overall


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ({"n_users": 5}, "n_users is 5"),
        ({"window": 0.1}, "window is 0.1"),
        ({"measure": "CM99"}, "CM99"),
        ({"random_state": -1}, "random_state is -1"),
    ],
)
def test_impossible_settings_are_refused(drifting, arguments, words):
    with pytest.raises(InputError, match=words):
        audit(drifting, **arguments)


def test_a_small_shop_hears_how_many_users_are_lacking():
    few = sr.datasets.synthetic(n_users=12, n_items=40, n_rows=300, length_spread=0, random_state=1)
    with pytest.raises(
        InputError, match="12 users took 10 items or more, an audit needs 20, and 8"
    ):
        audit(few)


def test_what_is_no_data_is_refused():
    with pytest.raises(InputError, match="takes Interactions"):
        audit("ml-100k")
    counts = sr.PrecedenceStatistics.from_counts(
        np.zeros((3, 3), dtype=int), np.ones(3, dtype=int), 5
    )
    with pytest.raises(InputError, match="no users: there is nobody to audit"):
        audit(counts)
