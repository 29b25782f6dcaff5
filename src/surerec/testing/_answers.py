"""What every recommender answers, whatever scores, calibrates and deploys it."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any
from urllib.request import Request, urlopen

import numpy as np
import polars as pl

from surerec._arguments import check_kind
from surerec._words import DAY
from surerec.audit import audit
from surerec.datasets import synthetic
from surerec.errors import (
    AlreadyConsumedError,
    InputError,
    NoConfidenceError,
    NotFittedError,
    UnknownHistoryError,
)
from surerec.interactions import Interactions
from surerec.recommenders import Recommender, WrappedRecommender, load

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from surerec.measures import MeasureLike
    from surerec.recommenders import RecommendationSet

_CONFIDENCES = (0.3, 0.5, 0.7, 0.9, 0.97)
_REFUSED = "was saved without its scorer"


def expect(condition: object, sentence: str) -> None:
    """Fail with a sentence, under ``python -O`` too."""
    if not condition:
        raise AssertionError(sentence)


def refused(
    error: type[Exception], sentence: str, ask: Callable[..., object], /, **asked: Any
) -> Exception:
    """Return the error of a question that must be refused, or fail with a sentence."""
    try:
        ask(**asked)
    except error as found:
        return found
    raise AssertionError(sentence)


@dataclass(frozen=True, eq=False)
class ModelUnderTest:
    """What is checked.

    Parameters
    ----------
    make : callable
        Gives a recommender that is not fitted, the same each time.
    data : Interactions, optional
        To fit it on: made-up data by default. Users with ten items or more are needed.
    future : Interactions, optional
        What calibrates a wrapped model that comes fitted on the data.
    scorer : object, optional
        What :func:`surerec.load` must be given, if a model folder cannot hold the scorer.
    spark : SparkSession, optional
        To try it on Spark, too.
    fit_params : mapping, optional
        What fit or calibrate is given beside the data, such as ``user_segments``.
    """

    make: Callable[[], Recommender]
    data: Interactions | None = None
    scorer: MeasureLike | None = None
    spark: Any = None
    fit_params: Mapping[str, Any] = field(default_factory=dict)
    future: Interactions | None = None

    @cached_property
    def interactions(self) -> Interactions:
        """The data."""
        if self.data is not None:
            expect(isinstance(self.data, Interactions), "the data are no Interactions")
            return self.data
        return synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)

    @cached_property
    def fitted(self) -> Recommender:
        """The recommender, fitted once for all checks."""
        return self.fit(self.made(), self.interactions)

    def fit(self, model: Recommender, data: Any) -> Recommender:
        """Fit a recommender, or calibrate a wrapped model that comes fitted."""
        if self.future is None:
            return model.fit(data, **self.fit_params)
        wrapped = check_kind("make()", model, WrappedRecommender, "a wrapped model to take future=")
        return wrapped.calibrate(data, self.future, **self.fit_params)

    @property
    def accepts_histories(self) -> bool:
        """Whether people who are not in the data can be asked about."""
        return self.fitted.scorer_.accepts_histories

    def made(self) -> Recommender:
        """Make one, and see that it is a recommender."""
        found = self.make() if callable(self.make) else None
        expect(isinstance(found, Recommender), "what is checked makes no recommender")
        return found

    @cached_property
    def users(self) -> list[Any]:
        """Some users of whom enough is known, by id."""
        lengths = np.diff(self.interactions.offsets)
        enough = np.flatnonzero((lengths >= 10) & (lengths < self.interactions.n_items))[:6]  # noqa: PLR2004
        expect(len(enough), "the data have no user with ten items or more")
        return self.interactions.users.ids.gather(enough).to_list()

    def history(self, user: Any) -> list[Any]:
        """Return what a user took, by id."""
        return self.interactions.profile(user)["item_id"].to_list()

    def level(self, confidence: float = 0.8) -> dict[str, Any]:
        """Return the confidence to ask at, if it has any."""
        return {"confidence": confidence} if "confidence" in self.fitted.model_.features else {}

    def ask(self, user: Any, confidence: float = 0.8) -> RecommendationSet:
        """Recommend to a user."""
        return self.fitted.recommend(user, **self.level(confidence))

    def same_rows(self, many: pl.DataFrame, alone: Iterable[tuple[Any, dict[str, Any]]]) -> bool:
        """Return whether rows for many users are those of each of them asked for alone."""
        dtype = many["user_id"].dtype
        rows = (
            self.fitted.recommend(**asked)
            .to_frame()
            .select(pl.lit(user).cast(dtype).alias("user_id"), pl.all())
            for user, asked in alone
        )
        return many.drop("covered").equals(pl.concat(rows))

    def same_answers(self, model: Recommender) -> bool:
        """Return whether another model answers some questions as the fitted one does."""
        pairs = zip(self.answers(model), self.answers(self.fitted), strict=True)
        return all(one.equals(other) for one, other in pairs)

    def answers(self, model: Recommender) -> list[pl.DataFrame]:
        """Return what a model answers to some users and to a history, to compare it by."""
        found = [model.recommend(user, **self.level()).to_frame() for user in self.users[:3]]
        if self.accepts_histories:
            history = self.history(self.users[0])[:8]
            found.append(model.recommend(history=history, **self.level()).to_frame())
        found.append(model.recommend_many(self.users, k=5, **self.level()))
        return found


def known_user(subject: ModelUnderTest, _: Path) -> None:
    """Check that a user's set is ranked, holds nothing of theirs, and says what it promises."""
    for user in subject.users:
        picks = subject.ask(user)
        frame = picks.to_frame()
        expect(not set(picks.items) & set(subject.history(user)), "a set holds what they took")
        expect(len(set(picks.items)) == len(picks), "a set holds an item twice")
        expect(frame["rank"].to_list() == list(range(1, len(picks) + 1)), "ranks are not 1, 2, 3 …")
        expect(not frame["score"].has_nulls(), "a score is not a number")
        expect(str(picks.guarantee).endswith("."), "the guarantee is no sentence")
        whole = picks.guarantee.full or picks.guarantee
        expect(whole.holds == (not whole.reason), "a guarantee holds against a reason")


def new_history(subject: ModelUnderTest, _: Path) -> None:
    """Check that somebody new is known by a history; what nobody took is ignored, and named."""
    history = subject.history(subject.users[0])[:6]
    ask = subject.fitted.recommend
    if not subject.accepts_histories:
        why = "a history is scored by what scores no histories"
        refused(InputError, why, ask, history=history, **subject.level())
        return
    picks = ask(history=[*history, "no such item"], **subject.level())
    expect(picks.ignored == ("no such item",), "an unknown item is not named as ignored")
    expect(not set(picks.items) & set(history), "a set holds what is in the history")
    why = "a history of nothing that is known is not refused"
    refused(UnknownHistoryError, why, ask, history=["no such item"], **subject.level())


def many_users(subject: ModelUnderTest, _: Path) -> None:
    """Check that many users are answered as each of them is alone: sets, cut sets, short lists."""
    for asked in (subject.level(), {"k": 4, **subject.level()}, {"k": 4}):
        many = subject.fitted.recommend_many(subject.users, **asked)
        same = subject.same_rows(many, ((user, {"user": user, **asked}) for user in subject.users))
        expect(same, f"many users get other rows than each alone ({asked})")


def short_lists(subject: ModelUnderTest, _: Path) -> None:
    """Check that k alone returns the k best candidates, and that no guarantee is stated."""
    for user in subject.users:
        top, longer = (subject.fitted.recommend(user, k=k) for k in (3, 6))
        expect(len(top) == min(3, top.full_size), "a short list has not k items")
        expect(top.items == longer.items[:3], "a longer list does not begin like a short one")
        expect(not top.guarantee.holds, "a short list has a guarantee")
        expect(bool(top.about_hit_probability), "no reason for the probability of a hit")


def many_histories(subject: ModelUnderTest, _: Path) -> None:
    """Check that many new users are answered as each of them is alone, with times or without."""
    if "user_segments" in subject.fit_params or not subject.accepts_histories:
        return  # a mapping says no groups, and some models know no newcomers
    first = {user: subject.interactions.profile(user).head(8) for user in subject.users}
    histories = {user: consumed["item_id"].to_list() for user, consumed in first.items()}
    timed = {
        user: list(zip(consumed["item_id"], consumed["datetime"].to_numpy(), strict=True))
        for user, consumed in first.items()
    }
    for k, given in ((None, histories), (4, histories), (4, timed)):
        asked = {"k": k, **subject.level()}
        many = subject.fitted.recommend_many(histories=given, **asked)
        alone = ((user, {"history": history, **asked}) for user, history in given.items())
        same = subject.same_rows(many, alone)
        expect(same, f"many histories get other rows than each alone (k={k})")


def p_values(subject: ModelUnderTest, _: Path) -> None:
    """Check that one answer serves every confidence: items enter above their entry confidence."""
    user = subject.users[0]
    if "confidence" not in subject.fitted.model_.features:
        why = "p-values are given by what has no confidence"
        refused(NoConfidenceError, why, subject.fitted.p_values, user=user)
        return
    values = subject.fitted.p_values(user)
    if "p_value" in values.columns:
        known = values["p_value"].drop_nulls()
        expect(known.is_between(0, 1).all(), "a p-value is outside [0, 1]")
    for confidence in _CONFIDENCES:
        inside = values.filter(pl.col("entry_confidence") < confidence - 1e-9)["item_id"]
        picks = subject.ask(user, confidence)
        expect(set(picks.items) == set(inside), f"entry confidences disagree at {confidence}")
    some = values["item_id"].head(3).to_list()
    expect(
        subject.fitted.p_values(user, items=some).equals(values.head(3)), "asked alone they differ"
    )


def explained(subject: ModelUnderTest, _: Path) -> None:
    """Check that a reason is counts, and that what was taken is not explained."""
    user = subject.users[0]
    history = subject.history(user)
    item = next(each for each in subject.interactions.items.ids if each not in history)
    why = subject.fitted.explain(user, item=item)
    frame = why.to_frame()
    expect(set(frame["item_id"]) <= set(history), "a reason is no item of the profile")
    expect((frame["later"] + frame["earlier"] <= frame["support"]).all(), "counts exceed support")
    moved = [abs(each.by) for each in why.contributions]
    expect(moved == sorted(moved, reverse=True), "the strongest contribution is not first")
    why_not = "an item of the profile is explained"
    refused(AlreadyConsumedError, why_not, subject.fitted.explain, user=user, item=history[0])


def nested(subject: ModelUnderTest, _: Path) -> None:
    """Check that a set at a higher confidence holds every smaller one."""
    if "confidence" not in subject.fitted.model_.features:
        return
    for user in subject.users[:3]:
        sets = [set(subject.ask(user, at).items) for at in _CONFIDENCES]
        grows = all(small <= large for small, large in pairwise(sets))
        expect(grows, "a set loses items as the confidence grows")


def parameters(subject: ModelUnderTest, _: Path) -> None:
    """Check that a copy has the settings as given and nothing learned, and fits alike."""
    model = subject.made()
    settings = model.get_params()
    twin = type(model)(**settings)
    expect(twin.get_params() == settings, "settings do not come back as they were given")
    expect(model.set_params(**settings) is model, "set_params does not give the model back")
    why = "a recommender answers before it is fitted"
    refused(NotFittedError, why, twin.recommend, user=subject.users[0])
    refitted = subject.fit(twin, subject.fitted.statistics_)
    expect(refitted is twin, "fit does not give the model back")
    expect(subject.same_answers(twin), "fitted again it answers otherwise")


def threads(subject: ModelUnderTest, _: Path) -> None:
    """Check that threads that ask at once get what they would get alone."""
    users = subject.users * 4
    alone = [subject.ask(user).to_frame() for user in users]
    with ThreadPoolExecutor(4) as pool:
        group_guarantee = pool.map(lambda user: subject.ask(user).to_frame(), users)
    same = all(a.equals(b) for a, b in zip(alone, group_guarantee, strict=True))
    expect(same, "threads that ask at once get other answers")


def _saved(subject: ModelUnderTest, folder: Path) -> Path:
    place = folder / "model"
    if not place.exists():
        subject.fitted.save(place)
    return place


def save_and_load(subject: ModelUnderTest, folder: Path) -> None:
    """Check that what a folder gives back answers as what was saved, its scorer given again."""
    place = _saved(subject, folder)
    back = load(place, scorer=subject.scorer)
    expect(subject.same_answers(back), "loaded it answers otherwise")
    if subject.scorer is None:
        return
    why = "a folder without the scorer is loaded without it"
    error = refused(InputError, why, load, folder=place)
    expect(_REFUSED in str(error), f"the reason is another one: {error}")


def served(subject: ModelUnderTest, folder: Path) -> None:
    """Check that ``surerec serve`` gives the same items, or refuses a folder without the scorer."""
    place = _saved(subject, folder)
    log = folder / "serve.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "surerec", "serve", str(place), "--port", "0"]
        server = subprocess.Popen([*command, "--workers", "1"], stderr=out)  # noqa: S603
    try:
        address = server_address(server, log)
        if subject.scorer is not None:
            said = log.read_text()
            expect(address is None and server.wait(60) == 2, f"it is served: {said}")  # noqa: PLR2004
            expect(_REFUSED in said and "Traceback" not in said, f"it says: {said}")
            return
        expect(address is not None, f"it is not served: {log.read_text()}")
        for user in subject.users[:2]:
            body = json.dumps({"user": user, **subject.level(), "k": 5}).encode()
            asked = Request(  # noqa: S310  # our own server
                f"{address}v1/recommendations", body, {"Content-Type": "application/json"}
            )
            with urlopen(asked, timeout=60) as answer:  # noqa: S310
                items = [row["item_id"] for row in json.load(answer)["items"]]
            alone = subject.fitted.recommend(user, k=5, **subject.level()).items
            expect(items == alone, "over HTTP it recommends other items")
    finally:
        server.terminate()
        server.wait(60)


def server_address(server: subprocess.Popen[bytes], log: Path) -> str | None:
    """Wait until a server answers; None if it ends instead."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if found := re.search(r"^Serving .* at (http://\S+/) with", log.read_text(), re.MULTILINE):
            return found[1]
        if server.poll() is not None:
            return None
        time.sleep(0.05)
    raise AssertionError(f"the server does not answer: {log.read_text()}")


def audited(subject: ModelUnderTest, _: Path) -> None:
    """Check that an audit measures it, over the calendar only if it can be fitted on the past."""
    times = subject.interactions.times
    window = max(1.0, (int(times.max()) - int(times.min())) / DAY / 6)
    found = audit(subject.fitted, n_users=60, window=window)
    kinds = set(found.coverage["kind"])
    expect({"recall-rank", "hit-rank"} <= kinds, "an audit lacks a user-level guarantee")
    past = any(kind.startswith("temporal") for kind in kinds)
    if not subject.fitted.recipe().refits:
        expect(not past, "what cannot be fitted on the past is audited over the calendar")
        expect(any("comes fitted" in why for why in found.skipped), "an audit does not say why")
    else:
        expect(past, f"the calendar is not audited: {found.skipped}")


def on_spark(subject: ModelUnderTest, folder: Path) -> None:
    """Check that Spark writes the rows of ``recommend_many``, or refuses without the scorer."""
    from surerec.spark import recommend_spark  # noqa: PLC0415  # an extra

    place, output = _saved(subject, folder), folder / "picks"
    try:
        recommend_spark(subject.spark, place, output, subject.users, k=5, **subject.level())
    except InputError as error:
        expect(subject.scorer is not None and _REFUSED in str(error), str(error))
        return
    expect(subject.scorer is None, "Spark recommends without the scorer")
    found = pl.concat(pl.read_parquet(path) for path in sorted(output.glob("*.parquet")))
    expected = subject.fitted.recommend_many(subject.users, k=5, **subject.level())
    same = found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))
    expect(same, "on Spark it recommends other items")
