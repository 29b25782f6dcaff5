"""What every recommender answers, whatever scores and whatever calibrates."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.calibration import ItemCalibration
from surerec.errors import InProfile, InputError, NoConfidence, NotFittedError, UnknownHistory
from surerec.measures import Queries, Query, Scorer
from surerec.testing._subject import expect

if TYPE_CHECKING:
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.testing._subject import Subject

_CONFIDENCES = (0.3, 0.5, 0.7, 0.9, 0.97)


def known_user(subject: Subject, _: Path) -> None:
    """Check that a user's set is ranked, holds nothing of theirs, and says what it promises."""
    for user in subject.users:
        picks = subject.ask(subject.fitted, user)
        frame = picks.to_frame()
        expect(not set(picks.items) & set(subject.history(user)), "a set holds what they took")
        expect(len(set(picks.items)) == len(picks), "a set holds an item twice")
        expect(frame["rank"].to_list() == list(range(1, len(picks) + 1)), "ranks are not 1, 2, 3 …")
        expect(not frame["score"].has_nulls(), "a score is not a number")
        expect(str(picks.guarantee).endswith("."), "the guarantee is no sentence")
        whole = picks.guarantee.full or picks.guarantee
        expect(whole.holds == (not whole.reason), "a guarantee holds against a reason")


def new_history(subject: Subject, _: Path) -> None:
    """Check that somebody new is known by a history; what nobody took is ignored, and named."""
    history = subject.history(subject.users[0])[:6]
    if not subject.takes_histories:
        try:
            subject.fitted.recommend(history=history, **subject.level())
        except InputError:
            return
        raise AssertionError("a history is scored by what scores no histories")
    picks = subject.fitted.recommend(history=[*history, "no such item"], **subject.level())
    expect(picks.ignored == ("no such item",), "an unknown item is not named as ignored")
    expect(not set(picks.items) & set(history), "a set holds what is in the history")
    try:
        subject.fitted.recommend(history=["no such item"], **subject.level())
    except UnknownHistory:
        return
    raise AssertionError("a history of nothing that is known is not refused")


def many_users(subject: Subject, _: Path) -> None:
    """Check that many users are answered as each of them is alone: sets, cut sets, short lists."""
    for asked in (subject.level(), {"k": 4, **subject.level()}, {"k": 4}):
        many = subject.fitted.recommend_many(subject.users, **asked)
        alone = [
            subject.fitted.recommend(user, **asked)
            .to_frame()
            .select(pl.lit(user).alias("user_id"), pl.all())
            .with_columns(pl.col("user_id").cast(many["user_id"].dtype))
            for user in subject.users
        ]
        same = many.drop("covered").equals(pl.concat(alone))
        expect(same, f"many users get other rows than each alone ({asked})")


def short_lists(subject: Subject, _: Path) -> None:
    """Check that k alone returns the k best candidates, and that no guarantee is stated."""
    for user in subject.users:
        top, longer = (subject.fitted.recommend(user, k=k) for k in (3, 6))
        expect(len(top) == min(3, top.full_size), "a short list has not k items")
        expect(top.items == longer.items[:3], "a longer list does not begin like a short one")
        expect(not top.guarantee.holds, "a short list has a guarantee")
        expect(bool(top.about_hit_probability), "no reason for the probability of a hit")


def many_histories(subject: Subject, _: Path) -> None:
    """Check that many new users are answered as each of them is alone, with times or without."""
    if "user_groups" in subject.fit_params or not subject.takes_histories:
        return  # a mapping says no groups, and some models know no newcomers
    histories = {user: subject.history(user)[:8] for user in subject.users}
    timed = {
        user: list(zip(taken, subject.times(user), strict=False))
        for user, taken in histories.items()
    }
    for k, given in ((None, histories), (4, histories), (4, timed)):
        many = subject.fitted.recommend_many(histories=given, k=k, **subject.level())
        alone = [
            subject.fitted.recommend(history=history, k=k, **subject.level())
            .to_frame()
            .select(pl.lit(user).alias("user_id"), pl.all())
            .with_columns(pl.col("user_id").cast(many["user_id"].dtype))
            for user, history in given.items()
        ]
        same = many.drop("covered").equals(pl.concat(alone))
        expect(same, f"many histories get other rows than each alone (k={k})")


def p_values(subject: Subject, _: Path) -> None:
    """Check that one answer serves every confidence: items enter above their entry confidence."""
    user = subject.users[0]
    if "confidence" not in subject.fitted.model_.features:
        try:
            subject.fitted.p_values(user)
        except NoConfidence:
            return
        raise AssertionError("p-values are given by what has no confidence")
    values = subject.fitted.p_values(user)
    if "p_value" in values.columns:
        known = values["p_value"].drop_nulls()
        expect(known.is_between(0, 1).all(), "a p-value is outside [0, 1]")
    for confidence in _CONFIDENCES:
        inside = values.filter(pl.col("entry_confidence") < confidence - 1e-9)["item_id"]
        picks = subject.ask(subject.fitted, user, confidence)
        expect(set(picks.items) == set(inside), f"entry confidences disagree at {confidence}")
    some = values["item_id"].head(3).to_list()
    expect(
        subject.fitted.p_values(user, items=some).equals(values.head(3)), "asked alone they differ"
    )


def explained(subject: Subject, _: Path) -> None:
    """Check that a reason is counts, and that what was taken is not explained."""
    user = subject.users[0]
    history = subject.history(user)
    item = subject.ask(subject.fitted, user).items[:1] or [
        next(i for i in subject.interactions.items.ids if i not in history)
    ]
    why = subject.fitted.explain(user, item=item[0])
    frame = why.to_frame()
    expect(set(frame["item_id"]) <= set(history), "a reason is no item of the profile")
    expect((frame["later"] + frame["earlier"] <= frame["support"]).all(), "counts exceed support")
    moved = [abs(each.by) for each in why.contributions]
    expect(moved == sorted(moved, reverse=True), "the strongest contribution is not first")
    try:
        subject.fitted.explain(user, item=history[0])
    except InProfile:
        return
    raise AssertionError("an item of the profile is explained")


def nested(subject: Subject, _: Path) -> None:
    """Check that a set at a higher confidence holds every smaller one."""
    if "confidence" not in subject.fitted.model_.features:
        return
    for user in subject.users[:3]:
        sets = [set(subject.ask(subject.fitted, user, at).items) for at in _CONFIDENCES]
        grows = all(small <= large for small, large in pairwise(sets))
        expect(grows, "a set loses items as the confidence grows")


class _Plain(Scorer):
    """A scorer without its faster ways."""

    def __init__(self, scorer: Scorer) -> None:
        self._scorer = scorer
        self.leaves_users_out = scorer.leaves_users_out
        self.value = scorer.value  # type: ignore[method-assign]

    def score_query(self, query: Query) -> NDArray[np.float64]:
        """Score every item."""
        return self._scorer.score_query(query)


def fast_paths(subject: Subject, _: Path) -> None:
    """Check that the fused and the batch way give what the plain way gives."""
    model, statistics = subject.fitted, subject.fitted.statistics_
    scorer, calibration = model.scorer_, ItemCalibration()
    codes = subject.interactions.users.require(subject.users)
    for code in codes:
        query = Query.of_user(subject.interactions, int(code))
        candidates = model.model_.candidates(query)
        fast, plain = (
            calibration.assess(each, statistics, query, candidates)
            for each in (scorer, _Plain(scorer))
        )
        expect(np.array_equal(fast.counts, plain.counts), "fused p-values differ from plain ones")
        expect(np.array_equal(fast.score, plain.score), "fused scores differ from plain ones")
    best = calibration.best_of_many(
        scorer, statistics, Queries.of_users(subject.interactions, codes), 0.2, 4
    )
    if best is None:
        return
    for row, code in enumerate(codes):
        query = Query.of_user(subject.interactions, int(code))
        plain = calibration.assess(
            _Plain(scorer), statistics, query, model.model_.candidates(query)
        )
        expected = plain.candidates[plain.ordered(0.2)[:4]]
        expect(
            np.array_equal(best.items[best.owners == row], expected), "the batch differs from plain"
        )


def parameters(subject: Subject, _: Path) -> None:
    """Check that a copy has the settings as given and nothing learned, and fits alike."""
    model = subject.made()
    settings = model.get_params()
    twin = type(model)(**settings)
    expect(twin.get_params() == settings, "settings do not come back as they were given")
    expect(model.set_params(**settings) is model, "set_params does not give the model back")
    try:
        subject.ask(twin, subject.users[0])
    except NotFittedError:
        pass
    else:
        raise AssertionError("a recommender answers before it is fitted")
    refitted = subject.fit(twin, subject.fitted.statistics_)
    expect(refitted is twin, "fit does not give the model back")
    pairs = zip(subject.answers(twin), subject.answers(subject.fitted), strict=True)
    expect(all(a.equals(b) for a, b in pairs), "fitted again it answers otherwise")


def threads(subject: Subject, _: Path) -> None:
    """Check that threads that ask at once get what they would get alone."""
    users = subject.users * 4
    alone = [subject.ask(subject.fitted, user).to_frame() for user in users]
    with ThreadPoolExecutor(4) as pool:
        together = pool.map(lambda user: subject.ask(subject.fitted, user).to_frame(), users)
    same = all(a.equals(b) for a, b in zip(alone, together, strict=True))
    expect(same, "threads that ask at once get other answers")
