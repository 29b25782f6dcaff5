"""The full sentence of each kind of guarantee, and of each reason why one does not hold."""

import json

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import GUARANTEE_KINDS, Guarantee, GuaranteeKind, find_guarantee
from surerec.conformal import RiskCurve
from surerec.recommenders import make_recommender, recommender_names


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)


@pytest.fixture(scope="module")
def many():
    return sr.datasets.synthetic(n_users=500, n_items=80, n_rows=11_000, random_state=2)


@pytest.fixture(scope="module")
def models(films, tmp_path_factory):
    country = {user: "LI" if user < 4 else "AT" for user in films.users.ids[1:]}
    recall = sr.PopulationConformal(threshold="rank").fit(films, item_lists={"new": range(1, 21)})
    folder = tmp_path_factory.mktemp("live") / "live"
    return {
        "item": sr.InductiveConformal().fit(films),
        "older": sr.TransductiveConformal("median").fit(films),
        "none": sr.PrecedenceMining().fit(films),
        "recall": recall,
        "window": sr.PopulationConformal(threshold="rank", window=60).fit(films),
        "hit": sr.PopulationConformal(guarantee="hit", horizon=5).fit(films),
        "precision": sr.PopulationConformal(guarantee="precision").fit(films),
        "segments": sr.PopulationConformal(segments="country").fit(films, user_segments=country),
        "live": sr.Live.create(folder, recall, refit=False),
    }


NEXT = "what a user consumes next (the last 40% of a history, without repeats)"
DAYS = "(2020-03-10 to 2021-12-30)"
LATER = "Scores used later interactions of other users."


def recall(percent, n, over="users", of=NEXT):
    return (
        f"Recall of at least {percent}% on average over {over}: the set contains at least "
        f"{percent}% of {of}. Assumes users exchangeable with the {n} calibration users {DAYS} and "
        f"no drift since. {LATER}"
    )


KINDS = [
    (
        "item", {"user": 7, "confidence": 0.7}, "item", "each user",
        ("An item new to the user that they consume next is left out with probability at most 30%. "
        "Assumes that the user's 13 calibration items and future items are exchangeable. Drift of "
        "the user's taste weakens it."),
    ),
    (
        "older", {"user": 7, "confidence": 0.7}, "item", "each user",
        ("An item new to the user that they consume next is left out with probability at most 30%. "
        "Assumes that the user's 13 training items and future items are exchangeable. Validity of "
        "the median over later items is not proven."),
    ),
    ("recall", {"history": range(1, 9)}, "recall", "users", recall(90, 227)),
    (
        "recall", {"user": 50, "confidence": 0.8, "item_list": "new"}, "recall",
        "users who consume at least one of the 20 items of the list",
        recall(
            80, 222, "users who consume at least one of the 20 items of the list",
            f"the items of the list 'new' among {NEXT}",
        ),
    ),
    (
        "window", {"history": range(1, 9), "confidence": 0.8}, "recall", "users",
        ("Recall of at least 80% on average over users: the set contains at least 80% of what a "
        "user consumes in the next 60 days (without repeats). Assumes users exchangeable with the "
        "46 calibration users (2021-11-01 to 2021-12-30) and no drift since."),
    ),
    (
        "segments", {"user": 50, "confidence": 0.8}, "recall", "users with country 'AT'",
        recall(80, 224, "users with country 'AT'"),
    ),
    (
        "hit", {"history": range(1, 9), "confidence": 0.8}, "hit", "users",
        ("With probability at least 80% over users, the set contains at least one of the next 5 "
        "items new to the user. Assumes users exchangeable with the 210 calibration users "
        f"(2020-03-06 to 2021-12-30) and no drift since. {LATER}"),
    ),
    (
        "precision", {"user": 7, "precision": 0.2, "confidence": 0.95}, "precision",
        "users who are shown any",
        (f"At least 20% of the shown items are among {NEXT}, on average over users who are shown "
        "any (100.0% are), with 95% confidence for each level and segment separately. Assumes "
        f"users drawn independently, as the 170 calibration users who tested it {DAYS}, and no "
        f"drift since. {LATER}"),
    ),
    (
        "live", {"user": 7}, "live", "users whose events are evaluated",
        ("In the long run, at most 10% of evaluated events lie outside their sets, with each user "
        "and day counted once: no event has been evaluated yet. Assumes nothing about the stream. "
        "Evaluated are items new to the user that the model knows. Counts are current; the fitted "
        "threshold curve is from TODAY."),
    ),
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_", "kind", "covers", "sentence"), KINDS)
def test_the_sentence_of_each_kind(models, name, request_, kind, covers, sentence):
    found = models[name].recommend(**{"confidence": 0.9, **request_}).guarantee
    today = str(np.datetime64("today"))
    assert str(found) == sentence.replace("TODAY", today)
    assert (found.kind, found.covers, found.holds) == (kind, covers, True)
    assert found.level == request_.get("confidence", 0.9)
    assert str(found.n_calibration) in sentence or found.n_calibration is None
    assert found.period is None or " to ".join(found.period) in sentence
    assert found.precision == request_.get("precision")


def test_the_guarantee_to_all_is_of_each_segment(models):
    model = models["segments"]
    found = model.model_.guarantee_to_all(model.model_.options(confidence=0.8))
    assert str(found) == recall(80, 227, "users of each segment")


SOME = list(range(1, 31))
SHORT = [
    ({"k": 3}, "the set was truncated to 3 items"),
    ({"items": [1, 2, 3]}, "only the given items could be recommended"),
    ({"min_probability": 0.6}, "items less probable than 0.6 were left out"),
    (
        {"exclude": SOME, "k": 1},
        "excluded items were left out, and the set was truncated to 1 item",
    ),
]  # fmt: skip


@pytest.mark.parametrize(("options", "reason"), SHORT)
def test_a_truncated_set_has_none(models, options, reason):
    model = models["recall"]
    full = model.recommend(user=7, confidence=0.8).guarantee
    short = model.recommend(user=7, confidence=0.8, **options).guarantee
    assert (short.holds, short.reason, short.full) == (False, reason, full)
    assert str(short) == f"No guarantee: {reason}. The full set has: {recall(80, 226)}"
    to_all = model.model_.guarantee_to_all(model.model_.options(confidence=0.8, **options))
    assert (to_all.holds, to_all.reason) == (False, reason)
    assert to_all.full == model.model_.guarantee_to_all(model.model_.options(confidence=0.8))


EIGHT = {"history": list(range(1, 9))}
FEW = "this user has 2 known items, and calibration users had at least 5."
REASONS = [
    ("recall", {"history": [3, 5]}, FEW),
    (
        "recall", {"history": [3, 5], "k": 2},
        f"the set was truncated to 2 items. The full set has none either: {FEW}",
    ),
    (
        "recall", {**EIGHT, "confidence": 0.999},
        ("99.9% confidence needs at least 999 calibration users, and there are 227, so every item "
        "qualifies."),
    ),
    (
        "item", {"history": [3, 5, 7, 9], "confidence": 0.9},
        ("2 calibration items can support at most 66.67% confidence, not 90%, so every item "
        "qualifies."),
    ),
    (
        "segments", EIGHT,
        "the country of this user is unknown, and each country has its own thresholds.",
    ),
    (
        "segments", {**EIGHT, "segment": "CH"},
        "no calibration user has country 'CH', only 'AT', 'LI'.",
    ),
    (
        "segments", {**EIGHT, "segment": "LI"},
        ("80% confidence needs at least 4 calibration users with country 'LI', and there are 2, so "
        "every item qualifies."),
    ),
    ("none", {"user": 7, "k": 2, "confidence": None},
     "this recommender ranks items without a confidence level."),
]  # fmt: skip


@pytest.mark.parametrize(("name", "request_", "reason"), REASONS)
def test_each_reason_why_it_does_not_hold(models, name, request_, reason):
    found = models[name].recommend(**{"confidence": 0.8, **request_}).guarantee
    assert str(found) == f"No guarantee: {reason}"
    assert not found.holds
    assert found.kind == {"item": "item", "none": "none"}.get(name, "recall")


def test_groups(models, films):
    group = {"group": films.users.ids[:3].to_list()}
    merged = models["item"].recommend(**group, confidence=0.4).guarantee
    assert (merged.kind, merged.covers, merged.holds) == ("item", "this group", True)
    found = models["recall"].recommend(**group, confidence=0.8).guarantee
    assert (found.kind, found.covers) == ("recall", "random groups of 3")
    hit = models["recall"].recommend(**group, confidence=0.8, group_guarantee="hit-any").guarantee
    assert hit.kind == "hit"


def test_it_is_frozen_and_its_dictionary_is_json():
    full = Guarantee(kind="hit", level=0.9, claim="A hit", period=("2020-01-01", "2020-02-01"))
    short = full.assuming("", "Not adapted.").shortened("it is short")
    fields = json.loads(json.dumps(short.to_dict()))
    assert fields["sentence"] == "No guarantee: it is short. The full set has: A hit. Not adapted."
    assert (fields["holds"], fields["reason"]) == (False, "it is short")
    assert fields["period"] == ["2020-01-01", "2020-02-01"]
    assert fields["full"]["assumptions"] == ["Not adapted."]
    assert set(fields) == {"sentence", *Guarantee.__dataclass_fields__}
    assert full.assuming("") is full
    assert full.shortened("") is full
    assert short.assuming("More.").full.assumptions == ("Not adapted.", "More.")
    with pytest.raises(AttributeError):
        full.holds = False
    assert len({full, short}) == 2


class AtLeastHalf(GuaranteeKind):
    """At least half of what a user consumes next is in the set, with probability 1 − ε."""

    name = "half"
    prefix = "half"
    horizon = 4
    label = "half of the {future}"
    claim = "With probability {percent:.4g}%, over {users}, the set contains half of {future}"

    def curve(self, entries, owners, n_users):
        """Lose everything until half of the held-out items are in the set."""
        middle = [np.sort(entries[owners == user]) for user in range(n_users)]
        at = np.array([theirs[(len(theirs) + 1) // 2 - 1] for theirs in middle])
        return RiskCurve(at, np.ones(n_users), np.arange(n_users), n_users)


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(GUARANTEE_KINDS, "half", AtLeastHalf())


@pytest.mark.usefixtures("toy")
def test_a_new_kind_is_available_on_every_surface(many, tmp_path):
    assert "half-cm12" in recommender_names()
    model = make_recommender("half-cm12").fit(many)
    assert model.name_ == "half-cm12"
    history = many.items.ids[:8].to_list()
    picks = model.recommend(history=history, confidence=0.8)
    assert str(picks.guarantee).startswith(
        "With probability 80%, over users, the set contains half of the next 4 items new to the "
        "user. Assumes users exchangeable with"
    )
    model.save(tmp_path / "films")
    back = sr.load(tmp_path / "films")
    assert back.recommend(history=history, confidence=0.8).to_frame().equals(picks.to_frame())
    found = audit(many, "CM12", n_users=120, window=120)
    names = dict(found.coverage.select("kind", "name").iter_rows())
    assert names["half-rank"] == "User-level half of the next 4, rank threshold"


def test_a_kind_outside_the_table_works_but_does_not_load(many, tmp_path):
    model = sr.PopulationConformal(
        "CM12", guarantee=AtLeastHalf(), horizon=4, threshold="rank"
    ).fit(many)
    easier = sr.PopulationConformal("CM12", guarantee="hit", horizon=4, threshold="rank").fit(many)
    history = many.items.ids[:8].to_list()
    half, one = (len(m.recommend(history=history, confidence=0.8)) for m in (model, easier))
    assert half > one > 0
    model.save(tmp_path / "films")
    with pytest.raises(sr.InputError, match="guarantee is 'half'; choose one of recall, hit"):
        sr.load(tmp_path / "films")


def test_a_loss_that_may_grow_is_not_risk_controlled(many):
    class NonMonotone(AtLeastHalf):
        monotone = False

    with pytest.raises(sr.InputError, match="a user's loss may grow with the set"):
        sr.PopulationConformal("CM12", guarantee=NonMonotone()).fit(many)


def test_precision_is_tested_and_has_no_risk_curve():
    precision = find_guarantee("precision")
    assert (precision.monotone, precision.tested) == (False, True)
    with pytest.raises(sr.InputError, match="has no risk curve"):
        precision.curve(np.ones(1), np.zeros(1, int), 1)
