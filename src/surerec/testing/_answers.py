"""The contract checks, one function each."""

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
from surerec.recommenders import Recommender, WrappedRecommender, load, measure_of

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Mapping
    from pathlib import Path

    from surerec.measures import MeasureLike
    from surerec.recommenders import RecommendationSet

_CONFIDENCES = (0.3, 0.5, 0.7, 0.9, 0.97)
_REFUSED = "was saved without its scorer"


def expect(condition: object, message: str) -> None:
    """Raise AssertionError with a message, also under ``python -O``."""
    if not condition:
        raise AssertionError(message)


def refused(
    error: type[Exception], message: str, call: Callable[..., object], /, **request: Any
) -> Exception:
    """Return the error of a call that must raise it; otherwise raise AssertionError."""
    try:
        call(**request)
    except error as found:
        return found
    raise AssertionError(message)


@dataclass(frozen=True, eq=False)
class ModelUnderTest:
    """A recommender under test, and its data.

    Parameters
    ----------
    make : callable
        Returns an unfitted recommender with the same parameters each time.
    data : Interactions, optional
        The data to fit it on, with users of ten items or more; synthetic by default.
    future : Interactions, optional
        The interactions that calibrate a wrapped model that is fitted on the data.
    scorer : object, optional
        The scorer to pass to :func:`surerec.load`, if a model folder cannot store it.
    spark : SparkSession, optional
        The session for the Spark check.
    fit_params : mapping, optional
        Further parameters of fit or calibrate, such as ``user_segments``.
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
            expect(isinstance(self.data, Interactions), "data is no Interactions")
            return self.data
        return synthetic(n_users=300, n_items=60, n_rows=6_000, random_state=1)

    @cached_property
    def fitted(self) -> Recommender:
        """The fitted recommender, shared by all checks."""
        return self.fit(self.made(), self.interactions)

    def fit(self, model: Recommender, data: Any) -> Recommender:
        """Fit a recommender, or calibrate a fitted wrapped model."""
        if self.future is None:
            return model.fit(data, **self.fit_params)
        wrapped = check_kind("make()", model, WrappedRecommender, "a wrapped model, for future=")
        return wrapped.calibrate(data, self.future, **self.fit_params)

    @property
    def accepts_histories(self) -> bool:
        """Whether the model scores new users by their histories."""
        return self.fitted.scorer_.accepts_histories

    def made(self) -> Recommender:
        """Return an unfitted recommender."""
        found = self.make() if callable(self.make) else None
        expect(isinstance(found, Recommender), "make() returns no recommender")
        return found

    @cached_property
    def users(self) -> list[Any]:
        """The ids of some users with ten items or more."""
        lengths = np.diff(self.interactions.offsets)
        enough = np.flatnonzero((lengths >= 10) & (lengths < self.interactions.n_items))[:6]  # noqa: PLR2004
        expect(len(enough), "the data have no user with ten items or more")
        return self.interactions.users.ids.gather(enough).to_list()

    def history(self, user: Any) -> list[Any]:
        """Return the item ids of a user."""
        return self.interactions.profile(user)["item_id"].to_list()

    def level(self, confidence: float = 0.8) -> dict[str, Any]:
        """Return the confidence option, if the model has a confidence."""
        return {"confidence": confidence} if "confidence" in self.fitted.model_.features else {}

    def ask(self, user: Any, confidence: float = 0.8) -> RecommendationSet:
        """Recommend to a user."""
        return self.fitted.recommend(user, **self.level(confidence))

    def same_rows(self, many: pl.DataFrame, alone: Iterable[tuple[Any, dict[str, Any]]]) -> bool:
        """Return whether the rows of a batch equal those of single requests."""
        dtype = many["user_id"].dtype
        rows = (
            self.fitted.recommend(**request)
            .to_frame()
            .select(pl.lit(user).cast(dtype).alias("user_id"), pl.all())
            for user, request in alone
        )
        return many.drop("covered").equals(pl.concat(rows))

    def same_answers(self, model: Recommender) -> bool:
        """Return whether another model gives the same results as the fitted one."""
        pairs = zip(self.answers(model), self.answers(self.fitted), strict=True)
        return all(one.equals(other) for one, other in pairs)

    def answers(self, model: Recommender) -> list[pl.DataFrame]:
        """Return the results of a model for some users and a history."""
        found = [model.recommend(user, **self.level()).to_frame() for user in self.users[:3]]
        if self.accepts_histories:
            history = self.history(self.users[0])[:8]
            found.append(model.recommend(history=history, **self.level()).to_frame())
        found.append(model.recommend_many(self.users, k=5, **self.level()))
        return found


def known_user(subject: ModelUnderTest, _: Path) -> None:
    """Check that a user's set is ranked, excludes their items, and states its guarantee."""
    for user in subject.users:
        picks = subject.ask(user)
        frame = picks.to_frame()
        expect(
            not set(picks.items) & set(subject.history(user)),
            "a set contains an item of the user's history",
        )
        expect(len(set(picks.items)) == len(picks), "a set contains an item twice")
        expect(frame["rank"].to_list() == list(range(1, len(picks) + 1)), "ranks are not 1, 2, 3 …")
        expect(not frame["score"].has_nulls(), "a score is not a number")
        expect(str(picks.guarantee).endswith("."), "the guarantee does not end with a full stop")
        whole = picks.guarantee.full or picks.guarantee
        expect(whole.holds == (not whole.reason), "a guarantee holds in spite of a reason")


def new_history(subject: ModelUnderTest, _: Path) -> None:
    """Check recommendations for a history; unknown items are reported as ignored."""
    history = subject.history(subject.users[0])[:6]
    ask = subject.fitted.recommend
    if not subject.accepts_histories:
        why = "a history is accepted by a model that scores no histories"
        refused(InputError, why, ask, history=history, **subject.level())
        return
    picks = ask(history=[*history, "no such item"], **subject.level())
    expect(picks.ignored == ("no such item",), "an unknown item is not reported as ignored")
    expect(not set(picks.items) & set(history), "a set contains an item of the history")
    why = "a history of unknown items raises no error"
    refused(UnknownHistoryError, why, ask, history=["no such item"], **subject.level())


def many_users(subject: ModelUnderTest, _: Path) -> None:
    """Check that batches of users equal single requests: sets, truncated sets, short lists."""
    for options in (subject.level(), {"k": 4, **subject.level()}, {"k": 4}):
        many = subject.fitted.recommend_many(subject.users, **options)
        alone = ((user, {"user": user, **options}) for user in subject.users)
        expect(subject.same_rows(many, alone), f"a batch differs from single requests ({options})")


def short_lists(subject: ModelUnderTest, _: Path) -> None:
    """Check that k alone returns the k best candidates, without a guarantee."""
    for user in subject.users:
        top, longer = (subject.fitted.recommend(user, k=k) for k in (3, 6))
        expect(len(top) == min(3, top.full_size), "a short list does not have k items")
        expect(top.items == longer.items[:3], "a longer list does not begin with a shorter one")
        expect(not top.guarantee.holds, "a short list has a guarantee")
        expect(bool(top.about_hit_probability), "the probability of a hit is not explained")


def many_histories(subject: ModelUnderTest, _: Path) -> None:
    """Check that batches of histories equal single requests, with and without times."""
    if "user_segments" in subject.fit_params or not subject.accepts_histories:
        return  # a mapping has no segments, and some models score no new users
    first = {user: subject.interactions.profile(user).head(8) for user in subject.users}
    histories = {user: consumed["item_id"].to_list() for user, consumed in first.items()}
    timed = {
        user: list(zip(consumed["item_id"], consumed["datetime"].to_numpy(), strict=True))
        for user, consumed in first.items()
    }
    for k, given in ((None, histories), (4, histories), (4, timed)):
        options = {"k": k, **subject.level()}
        many = subject.fitted.recommend_many(histories=given, **options)
        alone = ((user, {"history": history, **options}) for user, history in given.items())
        expect(subject.same_rows(many, alone), f"a batch differs from single requests (k={k})")


def p_values(subject: ModelUnderTest, _: Path) -> None:
    """Check that sets contain exactly the items with an entry confidence below theirs."""
    user = subject.users[0]
    if "confidence" not in subject.fitted.model_.features:
        why = "a model without a confidence returns p-values"
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
        subject.fitted.p_values(user, items=some).equals(values.head(3)),
        "p-values of given items differ",
    )


def explained(subject: ModelUnderTest, _: Path) -> None:
    """Check the counts of explanations; items of the history are not explained."""
    user = subject.users[0]
    history = subject.history(user)
    item = next(each for each in subject.interactions.items.ids if each not in history)
    why = subject.fitted.explain(user, item=item)
    frame = why.to_frame()
    expect(set(frame["item_id"]) <= set(history), "a reason is not in the history")
    expect((frame["later"] + frame["earlier"] <= frame["support"]).all(), "counts exceed support")
    moved = [abs(each.by) for each in why.contributions]
    expect(moved == sorted(moved, reverse=True), "contributions are not ordered by size")
    why_not = "an item of the history is explained"
    refused(AlreadyConsumedError, why_not, subject.fitted.explain, user=user, item=history[0])


def nested(subject: ModelUnderTest, _: Path) -> None:
    """Check that sets grow with the confidence."""
    if "confidence" not in subject.fitted.model_.features:
        return
    for user in subject.users[:3]:
        sets = [set(subject.ask(user, at).items) for at in _CONFIDENCES]
        grows = all(small <= large for small, large in pairwise(sets))
        expect(grows, "a set loses items as the confidence grows")


def parameters(subject: ModelUnderTest, _: Path) -> None:
    """Check that parameters are stored as given, and that refitting gives the same results."""
    model = subject.made()
    params = model.get_params()
    twin = type(model)(**params)
    expect(twin.get_params() == params, "get_params differs from the given parameters")
    expect(model.set_params(**params) is model, "set_params does not return self")
    why = "an unfitted recommender gives recommendations"
    refused(NotFittedError, why, twin.recommend, user=subject.users[0])
    refitted = subject.fit(twin, subject.fitted.statistics_)
    expect(refitted is twin, "fit does not return self")
    expect(subject.same_answers(twin), "a refit gives other results")


def threads(subject: ModelUnderTest, _: Path) -> None:
    """Check that concurrent requests give the same results."""
    users = subject.users * 4
    alone = [subject.ask(user).to_frame() for user in users]
    with ThreadPoolExecutor(4) as pool:
        concurrent = pool.map(lambda user: subject.ask(user).to_frame(), users)
    same = all(a.equals(b) for a, b in zip(alone, concurrent, strict=True))
    expect(same, "concurrent requests give other results")


def _saved(subject: ModelUnderTest, folder: Path) -> Path:
    place = folder / "model"
    if not place.exists():
        subject.fitted.save(place)
    return place


def save_and_load(subject: ModelUnderTest, folder: Path) -> None:
    """Check that a loaded model gives the same results, with its scorer if it needs one."""
    place = _saved(subject, folder)
    back = load(place, scorer=subject.scorer)
    expect(subject.same_answers(back), "the loaded model gives other results")
    if subject.scorer is None:
        return
    why = "a folder without the scorer loads without scorer="
    error = refused(InputError, why, load, folder=place)
    expect(_REFUSED in str(error), f"the error has another reason: {error}")


def served(subject: ModelUnderTest, folder: Path) -> None:
    """Check that ``surerec serve`` returns the same items, or rejects a folder without scorer."""
    place = _saved(subject, folder)
    log = folder / "serve.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "surerec", "serve", str(place), "--port", "0"]
        server = subprocess.Popen([*command, "--workers", "1"], stderr=out)  # noqa: S603
    try:
        address = server_address(server, log)
        if subject.scorer is not None:
            output = log.read_text()
            expect(address is None and server.wait(60) == 2, f"it is served: {output}")  # noqa: PLR2004
            expect(_REFUSED in output and "Traceback" not in output, f"it prints: {output}")
            return
        expect(address is not None, f"the server does not start: {log.read_text()}")
        for user in subject.users[:2]:
            body = json.dumps({"user": user, **subject.level(), "k": 5}).encode()
            request = Request(  # noqa: S310  # our own server
                f"{address}v1/recommendations", body, {"Content-Type": "application/json"}
            )
            with urlopen(request, timeout=60) as answer:  # noqa: S310
                items = [row["item_id"] for row in json.load(answer)["items"]]
            alone = subject.fitted.recommend(user, k=5, **subject.level()).items
            expect(items == alone, "HTTP returns other items")
    finally:
        server.terminate()
        server.wait(60)


def server_address(server: subprocess.Popen[bytes], log: Path) -> str | None:
    """Wait until a server responds, and return its address; None if it exits."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if found := re.search(r"^Serving .* at (http://\S+/) with", log.read_text(), re.MULTILINE):
            return found[1]
        if server.poll() is not None:
            return None
        time.sleep(0.05)
    raise AssertionError(f"the server does not respond: {log.read_text()}")


def audited(subject: ModelUnderTest, _: Path) -> None:
    """Check that an audit measures it, with a temporal split if it can be refitted."""
    times = subject.interactions.times
    window = max(1.0, (int(times.max()) - int(times.min())) / DAY / 6)
    found = audit(subject.fitted, n_users=60, window=window)
    kinds = set(found.coverage["kind"])
    expect(
        {"recall-rank", "hit-rank"} <= kinds, "the audit does not measure the user-level guarantees"
    )
    past = any(kind.startswith("temporal") for kind in kinds)
    if not measure_of(subject.fitted).refits:
        expect(not past, "a model that cannot be refitted has a temporal split")
        expect(
            any("comes fitted" in why for why in found.skipped),
            "the audit does not give the reason",
        )
    else:
        expect(past, f"there is no temporal split: {found.skipped}")


def on_spark(subject: ModelUnderTest, folder: Path) -> None:
    """Check that Spark writes the rows of ``recommend_many``, or rejects a missing scorer."""
    from surerec.spark import recommend_spark  # noqa: PLC0415  # an extra

    place, output = _saved(subject, folder), folder / "picks"
    try:
        recommend_spark(subject.spark, place, output, subject.users, k=5, **subject.level())
    except InputError as error:
        expect(subject.scorer is not None and _REFUSED in str(error), str(error))
        return
    expect(subject.scorer is None, "Spark accepts a folder without the scorer")
    found = pl.concat(pl.read_parquet(path) for path in sorted(output.glob("*.parquet")))
    expected = subject.fitted.recommend_many(subject.users, k=5, **subject.level())
    same = found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))
    expect(same, "Spark writes other items")
