"""What each kind of guarantee says, and each reason why one does not hold."""

import json
import re

import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.calibration import (
    GUARANTEE_KINDS,
    NEW_ITEMS,
    Guarantee,
    GuaranteeKind,
    find_guarantee,
    observe,
    profile_cases,
)
from surerec.conformal import RiskCurve
from surerec.evaluation import coverage_over_splits
from surerec.measures import MeasureScorer
from surerec.recommenders import make_recommender, recommender_names

PERIOD = re.compile(r"\d{4}-\d\d-\d\d to \d{4}-\d\d-\d\d")


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)


@pytest.fixture(scope="module")
def many():
    return sr.datasets.synthetic(n_users=500, n_items=80, n_rows=11_000, random_state=2)


@pytest.fixture(scope="module")
def country(films):
    return {user: "LI" if user < 4 else "AT" for user in films.users.ids[1:]}


@pytest.fixture(scope="module")
def models(films, country):
    return {
        "item": sr.InductiveConformal().fit(films),
        "older": sr.TransductiveConformal("median").fit(films),
        "none": sr.PrecedenceMining().fit(films),
        "recall": sr.PopulationConformal(threshold="rank").fit(films),
        "hit": sr.PopulationConformal(guarantee="hit", horizon=5).fit(films),
        "precision": sr.PopulationConformal(guarantee="precision").fit(films),
        "segments": sr.PopulationConformal(segments="country").fit(films, user_segments=country),
    }


def sentences(guarantee):
    return PERIOD.sub("PERIOD", str(guarantee))


ASSUMES = "Assumes users exchangeable with the {n} calibration users (PERIOD) and no drift since."
LATER = "The scores also used later interactions of other users."
LAST = f"the last 40% of {NEW_ITEMS}"


def test_item(models):
    found = models["item"].recommend(user=7, confidence=0.7).guarantee
    assert (found.kind, found.level, found.covers) == ("item", 0.7, "each user")
    assert found.period is None
    assert str(found) == (
        "An item new to the user that they will consume is left out with probability at most 0.3. "
        f"Assumes that the user's {found.n_calibration} calibration items and the items consumed "
        "next are exchangeable. It holds less well the more tastes drift."
    )
    older = models["older"].recommend(user=7, confidence=0.7).guarantee
    assert older.kind == "item"
    assert older.assumptions[-1] == (
        "Taking the median over later items is not proven to keep that."
    )


def test_recall_and_hit(models):
    history = list(range(1, 9))
    found = models["recall"].recommend(history=history, confidence=0.9).guarantee
    n = len(models["recall"].calibration_)
    assert (found.kind, found.level, found.n_calibration) == ("recall", 0.9, n)
    assert (found.horizon, found.covers) == (LAST, "users")
    assert sentences(found) == (
        f"Of {LAST}, at most 10% is left out on average over users. {ASSUMES.format(n=n)} {LATER}"
    )
    assert " to ".join(found.period) in found.assumptions[0]
    hit = models["hit"].recommend(history=history, confidence=0.8).guarantee
    assert (hit.kind, hit.horizon) == ("hit", "the next 5 items new to the user")
    assert sentences(hit).startswith(
        "At least one of the next 5 items new to the user is in this set with probability at "
        "least 0.8, over users. Assumes users exchangeable with"
    )


def test_precision(models):
    found = models["precision"].recommend(user=7, precision=0.2, confidence=0.95).guarantee
    assert (found.kind, found.level, found.precision) == ("precision", 0.95, 0.2)
    assert found.covers == "users who are shown anything"
    assert found.claim == (
        f"Of what is shown, at least 20% is among {LAST} on average over users who are shown "
        "anything, with confidence 0.95 over the draw of these users"
    )
    assert sentences(found.assumptions[0]) == (
        "Assumes users drawn independently (exchangeable is not enough), as the "
        f"{found.n_calibration} calibration users who tested it were (PERIOD), and no drift since."
    )
    assert found.assumptions[1:3] == (LATER, "The confidence is of each level and segment singly.")


def test_segments(models):
    model = models["segments"]
    one = model.recommend(user=50, confidence=0.8).guarantee
    assert one.covers == "users with country 'AT'"
    everyone = model.model_.guarantee_to_all(model.model_.options(confidence=0.8))
    assert everyone.covers == "users"
    assert everyone.assumptions[-1].startswith("Each segment has a threshold of its own")


def test_live_and_groups(models, films, tmp_path):
    with sr.Live.create(tmp_path / "live", models["recall"], refit=False) as live:
        found = live.recommend(user=7, confidence=0.9).guarantee
    assert (found.kind, found.level, found.horizon) == ("live", 0.9, "the long run")
    assert (found.holds, found.covers) == (True, "users whose events are judged")
    assert "whatever happens: no event has been judged yet" in found.claim
    group = {"group": films.users.ids[:3].to_list()}
    merged = models["item"].recommend(**group, confidence=0.4).guarantee
    assert (merged.kind, merged.covers, merged.holds) == ("item", "this group", True)
    found = models["recall"].recommend(**group, confidence=0.8).guarantee
    assert (found.kind, found.covers) == ("recall", "random groups of 3")
    assert len(found.assumptions) == 1
    hit = models["recall"].recommend(**group, confidence=0.8, group_guarantee="hit-any").guarantee
    assert hit.kind == "hit"


SOME = list(range(1, 31))


@pytest.mark.parametrize(
    ("settings", "reason"),
    [
        ({"k": 3}, "the set was truncated to 3 items"),
        ({"items": [1, 2, 3]}, "only the given items could be recommended"),
        ({"min_probability": 0.6}, "items less probable than 0.6 were left out"),
        (
            {"exclude": SOME, "k": 1},
            "excluded items were left out, and the set was truncated to 1 item",
        ),
    ],
)
def test_a_list_that_is_not_the_full_set_has_none(models, settings, reason):
    model = models["recall"]
    full = model.recommend(user=7, confidence=0.8).guarantee
    short = model.recommend(user=7, confidence=0.8, **settings).guarantee
    assert (short.holds, short.reason, short.full) == (False, reason, full)
    assert str(short) == f"No guarantee: {reason}. The full set has: {full}"
    to_all = model.model_.guarantee_to_all(model.model_.options(confidence=0.8, **settings))
    assert (to_all.holds, to_all.reason) == (False, reason)
    assert to_all.full == model.model_.guarantee_to_all(model.model_.options(confidence=0.8))


EIGHT = {"history": list(range(1, 9))}
REASONS = [
    (
        "recall", {"history": [3, 5]},
        "only 2 items are known of this user, and the calibration users had 5 or more",
    ),
    (
        "recall", {**EIGHT, "confidence": 0.999},
        "a confidence of 0.999 needs at least 999 calibration users, and there are {n}, so ",
    ),
    (
        "item", {"history": [3, 5, 7, 9], "confidence": 0.9},
        "2 calibration items can support a confidence of at most 0.6667, not 0.9, so ",
    ),
    (
        "segments", EIGHT,
        "the country of this user is not known, and each country is calibrated by itself",
    ),
    ("segments", {**EIGHT, "segment": "CH"}, "nobody of country 'CH' calibrated; 'AT', 'LI' did"),
    (
        "segments", {**EIGHT, "segment": "LI"}, (
        "a confidence of 0.8 needs at least 4 calibration users with country 'LI', and there "
        "are 2, so "),
    ),
    ("none", {"user": 7, "confidence": None}, "this recommender ranks, without a confidence"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "asked", "reason"), REASONS)
def test_each_reason_why_it_does_not_hold(models, name, asked, reason):
    model = models[name]
    reason = reason.format(n=len(model.calibration_) if name == "recall" else 0)
    reason += "every item qualifies" if reason.endswith(", so ") else ""
    found = model.recommend(**{"confidence": 0.8, **asked}).guarantee
    assert (found.holds, found.reason) == (False, reason)
    assert str(found) == f"No guarantee: {reason}."
    assert found.kind == {"item": "item", "none": "none"}.get(name, "recall")


def test_neither_the_list_nor_the_full_set(models):
    short = models["recall"].recommend(history=[3, 5], confidence=0.8, k=2).guarantee
    assert str(short) == (
        "No guarantee: the set was truncated to 2 items. Nor has the full set: only 2 items are "
        "known of this user, and the calibration users had 5 or more."
    )
    ranked = models["none"].recommend(user=7, k=2).guarantee
    assert str(ranked) == "No guarantee: this recommender ranks, without a confidence."


def test_it_is_ready_for_json_and_frozen():
    full = Guarantee(kind="hit", level=0.9, claim="A hit", period=("2020-01-01", "2020-02-01"))
    short = full.assuming("", "Not steered.").shortened("it is short")
    told = json.loads(json.dumps(short.to_dict()))
    assert told["sentence"] == "No guarantee: it is short. The full set has: A hit. Not steered."
    assert (told["holds"], told["reason"]) == (False, "it is short")
    assert told["period"] == ["2020-01-01", "2020-02-01"]
    assert told["full"]["assumptions"] == ["Not steered."]
    assert set(told) == {"sentence", *Guarantee.__dataclass_fields__}
    assert full.assuming("") is full
    assert full.shortened("") is full
    assert short.assuming("More.").full.assumptions == ("Not steered.", "More.")
    with pytest.raises(AttributeError):
        full.holds = False
    assert len({full, short}) == 2


class AtLeastHalf(GuaranteeKind):
    """With probability at least 1 − ε, at least half of what a person takes next is in the set."""

    name = "half"
    prefix = "half"
    horizon = 4
    kind = "half"

    def curve(self, entries, owners, n_users):
        """Lose all until the item comes in with which half of the person's future is there."""
        middle = [np.sort(entries[owners == user]) for user in range(n_users)]
        at = np.array([theirs[(len(theirs) + 1) // 2 - 1] for theirs in middle])
        return RiskCurve(at, np.ones(n_users), np.arange(n_users), n_users)

    def sentence(self, significance, future, people):
        chance = f"with probability at least {1 - significance:.4g}, over {people}"
        return f"At least half of {future} is in this set {chance}"

    def title(self, future):
        return f"half of the {future}"


@pytest.fixture
def toy(monkeypatch):
    monkeypatch.setitem(GUARANTEE_KINDS, "half", AtLeastHalf())


@pytest.mark.usefixtures("toy")
def test_a_row_in_the_table_makes_it_known_everywhere(many, tmp_path):
    assert "half-cm12" in recommender_names()
    model = make_recommender("half-cm12").fit(many)
    assert model.name_ == "half-cm12"
    history = many.items.ids[:8].to_list()
    picks = model.recommend(history=history, confidence=0.8)
    assert str(picks.guarantee).startswith(
        "At least half of the next 4 items new to the user is in this set with probability at "
        "least 0.8, over users. Assumes users exchangeable with"
    )
    model.save(tmp_path / "films")
    back = sr.load(tmp_path / "films")
    assert back.recommend(history=history, confidence=0.8).to_frame().equals(picks.to_frame())
    found = audit(many, "CM12", n_users=120, window=120)
    names = dict(found.coverage.select("kind", "name").iter_rows())
    assert names["half-rank"] == "User-level half of the next 4, cut by rank"


@pytest.mark.parametrize("threshold", ["rank", "score"])
def test_it_is_kept_on_people_who_did_not_calibrate(many, threshold):
    counts = sr.count_precedence(many)
    scorer = MeasureScorer(counts, "CM12")
    outcomes = observe(scorer, counts, profile_cases(many, 4), keep_candidates=True)
    found = coverage_over_splits(
        outcomes, threshold, AtLeastHalf(), epsilons=(0.1, 0.3), n_splits=40
    )
    assert (found["loss"] - found["epsilon"]).is_between(-0.035, 0.015).all()


def test_the_object_itself_will_do_but_is_not_loaded(many, tmp_path):
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
    class Wavering(AtLeastHalf):
        monotone = False

    with pytest.raises(sr.InputError, match="a user's loss may grow with the set"):
        sr.PopulationConformal("CM12", guarantee=Wavering()).fit(many)


@pytest.mark.parametrize("name", [name for name in GUARANTEE_KINDS if name != "precision"])
def test_losses_never_grow_with_the_set(name):
    random = np.random.default_rng(3)
    owners = np.sort(np.concatenate((np.arange(30), random.integers(0, 30, 60))))
    entries = random.integers(1, 20, len(owners)).astype(float)
    curve = find_guarantee(name).curve(entries, owners, 30)
    levels = curve.levels(np.arange(21.0))
    assert (np.diff(levels) <= 0).all()
    assert find_guarantee(name).monotone


def test_precision_is_tested_and_has_no_risk_curve():
    precision = find_guarantee("precision")
    assert (precision.monotone, precision.tested) == (False, True)
    with pytest.raises(sr.InputError, match="has no risk curve"):
        precision.curve(np.ones(1), np.zeros(1, int), 1)
