"""What can be called, and what a right argument of each parameter is."""

from __future__ import annotations

import datetime as dt
from collections.abc import Callable
from dataclasses import dataclass, field
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, TypeAlias

import numpy as np

import surerec as sr
from fuzz.values import scorers
from surerec import conformal, evaluation, measures, testing
from surerec.audit import audit, log_martingale
from surerec.recommenders import load_all, make_recommender, save_all

if TYPE_CHECKING:
    from pathlib import Path

Random: TypeAlias = np.random.Generator
Right: TypeAlias = Callable[[Random], Any]
"""Draws a right argument."""


@dataclass(frozen=True)
class Call:
    """One function or method, and how its arguments are drawn."""

    name: str
    act: Callable[..., Any]
    arguments: dict[str, Right]
    required: frozenset[str] = frozenset()
    weight: float = 1.0
    may_fail: bool = False
    """Whether it says by an AssertionError what it found."""


def _one(*values: Any) -> Right:
    return lambda random: values[int(random.integers(len(values)))]


def _some(right: Right, most: int = 6) -> Right:
    return lambda random: [right(random) for _ in range(int(random.integers(0, most)))]


_WHOLE = _one(1, 2, 3, 10, 40, np.int64(5))
_SHARE = _one(0.1, 0.3, 0.5, 0.9, np.float32(0.2))
_SEED = _one(0, 1, 7, 2**31, 2**63, 2**64 - 1, 2**64)
_FLAG = _one(False, True)
_CONFIDENCE = _one(0.05, 0.5, 0.8, 0.9, 0.99, 0.999999, None)
_USER = _one(1, 2, 7, 39, "7", np.int64(3), 40, 41, 0)
_ITEM = _one(1, 2, 5, 19, "5", np.int64(3), 20, 99)
_HISTORY = _some(_ITEM, 12)
_NUMBERS = _some(_one(0.1, 0.5, 1.0, 2, -3.5, 0.0), 9)
_CODES = _some(_one(0, 1, 2, 3, 5), 8)


def _mask(random: Random) -> Any:
    return (random.random(int(random.integers(1, 9))) < 0.4).tolist()


@dataclass
class Subjects:
    """Small data and fitted models to call, made once."""

    scratch: Path
    _made: int = field(default=0)

    @cached_property
    def data(self) -> sr.Interactions:
        """Give profiles of 40 users."""
        return sr.datasets.synthetic(n_users=40, n_items=20, n_rows=400, days=300, seed=1)

    @cached_property
    def later(self) -> sr.Interactions:
        """Give the earlier half of them."""
        frame = self.data.to_frame()
        return sr.read_interactions(frame.filter(frame["datetime"] < frame["datetime"].median()))

    @cached_property
    def tiny(self) -> sr.Interactions:
        """Give two users."""
        return sr.Interactions.from_profiles([0, 2, 3], [1, 0, 1])

    @cached_property
    def counts(self) -> sr.PrecedenceStatistics:
        """Give counts of the profiles."""
        return sr.count_precedence(self.data)

    @cached_property
    def given(self) -> sr.PrecedenceStatistics:
        """Give counts without profiles."""
        counts = [[0, 2, 1], [0, 0, 1], [0, 0, 0]]
        return sr.PrecedenceStatistics.from_counts(counts, [3, 3, 2], n_users=4)

    @cached_property
    def models(self) -> list[Any]:
        """Give fitted recommenders, and some that are not."""
        return [
            sr.InductiveConformal("CM12").fit(self.counts),
            sr.InductiveConformal("CM3", smoothed=True, seed=3).fit(self.counts),
            sr.TransductiveConformal().fit(self.counts),
            sr.PrecedenceMining().fit(self.counts),
            sr.PopulationConformal("CM12").fit(self.counts),
            sr.PopulationConformal("CM8", promise="hit", horizon=2, window=60).fit(self.counts),
            sr.InductiveConformal("CM4").fit(self.given),
            sr.InductiveConformal("CM4"),
            sr.PopulationConformal("CM4"),
        ]

    @cached_property
    def folder(self) -> Path:
        """Give a model folder."""
        folder = self.scratch / "model"
        save_all(folder, {"mine": self.models[0], "over": self.models[4]})
        return folder

    def some_data(self, random: Random) -> Any:
        """Draw data of any kind."""
        return _one(self.data, self.counts, self.tiny, self.given, self.later)(random)

    def model(self, random: Random) -> Any:
        """Draw a recommender."""
        return self.models[int(random.integers(len(self.models)))]

    def measure(self, random: Random) -> Any:
        """Draw a measure, or a scorer of somebody's own."""
        if random.random() < 0.4:
            return scorers(random, self.data.n_items)
        return _one("CM12", "CM1", 3, "icrs5", "NCM17", "mean-share", "CM99")(random)

    def path(self, random: Random) -> Any:
        """Draw a path to save to."""
        self._made += 1
        new = self.scratch / f"new{self._made}"
        return _one(new, str(new), self.folder, self.scratch, self.scratch / "no" / "where")(random)


def _recommenders(these: Subjects) -> list[Call]:
    kinds: list[tuple[type, dict[str, Right]]] = [
        (
            sr.InductiveConformal,
            {
                "measure": these.measure,
                "top": _WHOLE,
                "literal": _FLAG,
                "train_share": _SHARE,
                "smoothed": _FLAG,
                "seed": _SEED,
            },
        ),
        (
            sr.PopulationConformal,
            {
                "measure": these.measure,
                "promise": _one("miss-rate", "hit", "x"),
                "horizon": _one(0.4, 2, 5, 0.99),
                "cut": _one("rank", "score"),
                "groups": _one(1, 2, 5),
                "window": _one(None, 30, 60.0, 1e-3, 1e9),
                "n_calibration": _WHOLE,
                "min_known": _one(1, 2, 5),
                "seed": _SEED,
            },
        ),
        (
            sr.TransductiveConformal,
            {
                "aggregate": _one("max", "median"),
                "zeros": _one("exact", "product"),
                "train_share": _SHARE,
                "search": _one("sorted", "plain"),
            },
        ),
        (sr.PrecedenceMining, {"top": _one(None, 1, 2, 100)}),
    ]

    def fit_and_ask(kind: type, data: Any, user: Any, **settings: Any) -> Any:
        model = kind(**settings)
        repr(model)
        model.fit(data)
        level = {"confidence": 0.8} if "confidence" in model.model_.features else {}
        model.recommend(user, **level)
        model.recommend_many([1, 2], k=3, **level)
        model.explain(user, item=next(i for i in range(1, 21) if i not in _taken(these, user)))
        return model

    def save_and_load(kind: type, data: Any, path: Any, **settings: Any) -> Any:
        model = kind(**settings).fit(data)
        model.save(path)
        return sr.load(path)

    def set_one(kind: type, **settings: Any) -> Any:
        return kind().set_params(**settings)

    found = []
    for kind, settings in kinds:
        about = {**settings, "data": these.some_data, "user": _one(1, 2, 7)}
        needed = frozenset({"data", "user"})
        found += [
            Call(kind.__name__, partial(fit_and_ask, kind), about, needed, 2.0),
            Call(f"{kind.__name__}().set_params", partial(set_one, kind), settings),
            Call(
                f"{kind.__name__}, saved and loaded",
                partial(save_and_load, kind),
                {**settings, "data": these.some_data, "path": these.path},
                frozenset({"data", "path"}),
            ),
        ]
    return found


def _taken(these: Subjects, user: Any) -> set[Any]:
    return set(these.data.profile(user)["item_id"].to_list())


def _asking(these: Subjects) -> list[Call]:
    person = {"user": _USER, "history": _HISTORY}
    level = {"confidence": _CONFIDENCE, "significance": _CONFIDENCE, "k": _WHOLE}

    def query(random: Random) -> Any:
        history = np.array(_one([0, 1], [3], [5, 2, 1])(random))
        users = _one((), (1,), (1, 2))(random)
        return _one(None, measures.Query(history, users))(random)

    asked = {**person, "query": query}
    methods: dict[str, tuple[dict[str, Right], frozenset[str], float]] = {
        "recommend": ({**asked, **level, "exclude": _HISTORY}, frozenset(), 3.0),
        "p_values": ({**asked, "items": _HISTORY}, frozenset(), 2.0),
        "explain": ({**asked, "item": _ITEM}, frozenset({"item"}), 2.0),
        "recommend_many": ({"users": _some(_USER), **level}, frozenset(), 2.0),
        "query": (person, frozenset(), 1.0),
        "candidates": ({"query": query}, frozenset({"query"}), 1.0),
        "assess": ({"query": query, "candidates": _CODES}, frozenset({"query"}), 1.0),
        "options": (level, frozenset({"confidence", "significance"}), 1.0),
        "save": (
            {"folder": these.path, "name": _one(None, "a", "b c", ".."), "overwrite": _FLAG},
            frozenset({"folder"}),
            2.0,
        ),
        "fitted_on": ({"statistics": these.some_data}, frozenset({"statistics"}), 1.0),
        "get_params": ({"deep": _FLAG}, frozenset(), 0.2),
        "recalibrate": (
            {"interactions": these.some_data, "refit": _FLAG, "counts": these.some_data},
            frozenset({"interactions"}),
            2.0,
        ),
        "age": ({"at": _one(None, dt.datetime(2024, 1, 1, tzinfo=dt.UTC))}, frozenset(), 0.5),
    }

    def ask(method: str, model: Any, **given: Any) -> Any:
        if method in {"recalibrate", "age"}:
            model = type(these.models[4])(**these.models[4].get_params()).fit(these.later)
        if not isinstance(model, type(these.models[0]).__mro__[1]):
            model = these.models[0]
        asked = model.model_ if method in {"candidates", "assess"} else model
        answer = getattr(asked, method)(**given)
        if method == "recalibrate":
            answer.recommend(1, confidence=0.8)
        return answer

    def ask_in_parts(model: Any, **given: Any) -> Any:
        if not isinstance(model, type(these.models[0]).__mro__[1]):
            model = these.models[0]
        return list(model.iter_recommendations(**given))

    found = [
        Call(
            method,
            partial(ask, method),
            {"model": these.model, **arguments},
            required | {"model"},
            weight,
        )
        for method, (arguments, required, weight) in methods.items()
    ]
    many = {"model": these.model, "users": _some(_USER), **level}
    found.append(Call("iter_recommendations", ask_in_parts, many, frozenset({"model"})))
    return found


def _data(these: Subjects) -> list[Call]:
    data = these.data

    def made(random: Random) -> Any:
        return _one(these.data, these.tiny, these.later)(random)

    one: dict[str, dict[str, Right]] = {
        "taken": {"user": _one(0, 1, 39, np.int64(2), 40)},
        "times_of": {"user": _one(0, 1, 39, 40)},
        "profile": {"user": _USER},
        "until": {"time": _one(0, int(np.median(data.times)), 2**62)},
        "without_users": {"users": _CODES},
        "title": {"code": _CODES},
    }
    found = [
        Call(f"Interactions.{name}", getattr(data, name), arguments, frozenset(arguments))
        for name, arguments in one.items()
    ]
    offsets = _one([0, 2, 3], [0, 1], [0], [0, 3, 2], [1, 2], [0, 2, 2, 3])
    found += [
        Call(
            "Interactions.from_profiles",
            sr.Interactions.from_profiles,
            {
                "offsets": offsets,
                "items": _one([1, 0, 1], [0], [], [0, 0, 1], [5, 1, 1]),
                "times": _one(None, [1, 2, 3], [1]),
                "user_ids": _one(None, ["a", "b"], [1]),
                "item_ids": _one(None, ["a", "b"], [1, 2, 3, 4, 5, 6], ["a", "a"]),
                "titles": _one(None),
                "name": _one(None, "films"),
                "origin": _one(None, "here"),
            },
            frozenset({"offsets", "items"}),
            3.0,
        ),
        Call("IdMap.code", data.items.code, {"value": _ITEM}, frozenset({"value"})),
        Call("IdMap.codes", data.items.codes, {"values": _HISTORY}, frozenset({"values"})),
        Call("IdMap.require", data.items.require, {"values": _HISTORY}, frozenset({"values"})),
        Call("IdMap.near", data.items.near, {"value": _ITEM, "n": _WHOLE}, frozenset({"value"})),
        Call(
            "count_precedence",
            sr.count_precedence,
            {
                "interactions": made,
                "ties": _one("order", "strict"),
                "strategy": _one("auto", "dense", "bounded", "on-demand"),
                "memory": _one(None, 0, 10**6, 10),
            },
            frozenset({"interactions"}),
            2.0,
        ),
        Call(
            "strongest_pairs",
            sr.strongest_pairs,
            {"statistics": these.some_data, "n_pairs": _WHOLE},
            frozenset({"statistics"}),
        ),
        Call(
            "PrecedenceStatistics.from_counts",
            sr.PrecedenceStatistics.from_counts,
            {
                "counts": _one([[0, 2], [1, 0]], [[0]], [], [[0, 5], [1, 0]], [[0, -1], [1, 0]]),
                "support": _one([3, 3], [1], [], [3.5, 1]),
                "n_users": _one(3, 4, 0),
            },
            frozenset({"counts", "support", "n_users"}),
            2.0,
        ),
    ]
    codes: dict[str, dict[str, Right]] = {
        "followers": {"item": _one(0, 1, 19, 20)},
        "predecessors": {"item": _one(0, 1, 19, 20)},
        "items_outside": {"known": _CODES},
        "without_user": {"user": _one(0, 1, 39, 40)},
        "taken_by": {"user": _one(None, 0, 39, 40)},
        "profile_of": {"user": _one(0, 39, 40)},
    }
    for statistics in (these.counts, these.given):
        found += [
            Call(
                f"PrecedenceStatistics.{name}",
                getattr(statistics, name),
                arguments,
                frozenset(arguments),
                0.5,
            )
            for name, arguments in codes.items()
        ]
    found += _reading(these)
    return found


def _reading(these: Subjects) -> list[Call]:
    frame = these.data.to_frame()
    synthetic = {
        "n_users": _one(1, 5, 30),
        "n_items": _one(1, 5, 30),
        "n_rows": _one(30, 60),
        "popularity": _SHARE,
        "length_spread": _SHARE,
        "sequels": _SHARE,
        "taste": _SHARE,
        "n_genres": _WHOLE,
        "drift": _SHARE,
        "ties": _SHARE,
        "longest": _one(None, 5, 20),
        "days": _one(1, 30),
        "seed": _SEED,
    }
    return [
        Call(
            "read_interactions",
            sr.read_interactions,
            {
                "source": _one(frame, frame.to_pandas(), frame.to_arrow(), "nowhere.csv"),
                "columns": _one(None, ["user", "item", "time"]),
                "user": _one(None, "user_id", "x"),
                "item": _one(None, "item_id"),
                "time": _one(None, "datetime"),
                "rating": _one(None, "x"),
                "threshold": _one(None, 0.0, 3),
                "min_profile_length": _WHOLE,
                "time_format": _one(None, "s", "%Y"),
                "skip_bad": _FLAG,
                "n_rows": _one(None, 10),
                "titles": _one(None),
                "name": _one(None, "x"),
                "origin": _one(None, "x"),
            },
            frozenset({"source"}),
            3.0,
        ),
        Call(
            "load_dataset, of a path",
            sr.load_dataset,
            {"name": _one("ml-100k", "ml-1m", "x"), "path": _one("nowhere", these.scratch)},
            frozenset({"name", "path"}),
        ),
        Call("datasets.find_dataset", sr.datasets.find_dataset, {"name": _one("ml-100k", "x")},
             frozenset({"name"}), 0.5),
        Call("datasets.synthetic", sr.datasets.synthetic, synthetic,
             frozenset({"n_users", "n_items", "n_rows"}), 3.0),
        Call(
            "load",
            sr.load,
            {
                "folder": _one(these.folder, str(these.folder), these.scratch),
                "recommender": _one(None, "mine", "x"),
                "scorer": _one(None),
                "verify": _FLAG,
            },
            frozenset({"folder"}),
            2.0,
        ),
        Call("load_all", load_all, {"folder": _one(these.folder), "verify": _FLAG},
             frozenset({"folder"})),
        Call(
            "save_all",
            save_all,
            {
                "folder": these.path,
                "recommenders": lambda random: _one({}, {"a": these.model(random)})(random),
                "overwrite": _FLAG,
            },
            frozenset({"folder", "recommenders"}),
        ),
        Call("make_recommender", make_recommender, {"name": _one("icrs3", "hit-cm12", "x")},
             frozenset({"name"})),
    ]  # fmt: skip


def _measuring(these: Subjects) -> list[Call]:
    def ask(given: Any, history: Any, without_user: Any, **settings: Any) -> Any:
        scorer = measures.as_recipe(given, **settings).fit(these.counts)
        return scorer.score(history, without_user=without_user)

    def query(first: Any = 1, **given: Any) -> Any:
        asked = measures.Query(**given)
        these.models[0].model_.assess(asked)
        return asked.first(first)

    return [
        Call(
            "as_recipe, fitted and asked",
            ask,
            {
                "given": these.measure,
                "history": _CODES,
                "without_user": _one(None, 0, 39, 40),
                "top": _WHOLE,
                "literal": _FLAG,
                "seed": _SEED,
            },
            frozenset({"given", "history", "without_user"}),
            3.0,
        ),
        Call("as_scorer", measures.as_scorer, {"given": these.measure, "n_items": _WHOLE},
             frozenset({"given"})),
        Call("find_measure", measures.find_measure, {"name": _one("CM3", 3, "x")},
             frozenset({"name"})),
        Call(
            "Query, asked",
            query,
            {
                "history": _one(np.array([1, 2]), np.array([5]), [1, 2], np.array([99])),
                "users": _one((), (1,), (99,), (1, 2)),
                "times": _one(None, np.array([1, 2])),
                "moment": _one(None, 10**15),
                "allowed": _one(None, np.array([3, 4]), np.array([99])),
                "ignored": _one((), ("x",)),
                "first": _WHOLE,
            },
            frozenset({"history"}),
            2.0,
        ),
        Call("Query.of_user", measures.Query.of_user,
             {"interactions": _one(these.data), "user": _one(0, 39, 40)},
             frozenset({"interactions", "user"})),
        Call(
            "MeasureScorer",
            measures.MeasureScorer,
            {
                "statistics": these.some_data,
                "measure": _one("CM3", 12, "x"),
                "top": _WHOLE,
                "literal": _FLAG,
            },
            frozenset({"statistics", "measure"}),
        ),
    ]  # fmt: skip


def _statistics() -> list[Call]:
    curve = {"entries": _NUMBERS, "owners": _CODES, "n_users": _one(1, 6)}
    whole = frozenset(curve)
    one = conformal.RiskCurve(np.array([1.0, 2, 3, 9]), np.ones(4), np.arange(4), 4)
    return [
        Call("p_value_counts", conformal.p_value_counts,
             {"calibration": _NUMBERS, "candidates": _NUMBERS},
             frozenset({"calibration", "candidates"})),
        Call("smoothed_p_values", conformal.smoothed_p_values,
             {"calibration": _NUMBERS, "candidates": _NUMBERS, "uniforms": _NUMBERS},
             frozenset({"calibration", "candidates", "uniforms"})),
        Call("in_set", conformal.in_set,
             {"counts": _CODES, "levels": _WHOLE, "significance": _SHARE},
             frozenset({"counts", "levels", "significance"})),
        Call("left_out_up_to", conformal.left_out_up_to,
             {"significance": _SHARE, "levels": _WHOLE}, frozenset({"significance", "levels"})),
        Call("entry_confidence", conformal.entry_confidence,
             {"counts": _CODES, "levels": _WHOLE}, frozenset({"counts", "levels"})),
        Call("highest_confidence", conformal.highest_confidence,
             {"n_calibration": _WHOLE}, frozenset({"n_calibration"})),
        Call("significance_of", conformal.significance_of,
             {"confidence": _CONFIDENCE, "significance": _CONFIDENCE},
             frozenset({"confidence", "significance"})),
        Call("users_needed", conformal.users_needed, {"significance": _SHARE},
             frozenset({"significance"})),
        Call("venn_abers", conformal.venn_abers,
             {"scores": _NUMBERS, "happened": _mask, "new": _NUMBERS},
             frozenset({"scores", "happened", "new"})),
        Call("RiskCurve.of_shares", conformal.RiskCurve.of_shares, curve, whole),
        Call("RiskCurve.of_first", conformal.RiskCurve.of_first, curve, whole),
        Call("RiskCurve", conformal.RiskCurve,
             {"entries": _one(np.arange(3.0)), "losses": _one(np.ones(3)),
              "owners": _one(np.arange(3)), "n_users": _one(3)},
             frozenset({"entries", "losses", "owners", "n_users"})),
        Call("RiskCurve.cut", one.cut, {"significance": _SHARE}, frozenset({"significance"})),
        Call("RiskCurve.levels", one.levels, {"entries": _NUMBERS, "without": _one(None, 0, 3, 4)},
             frozenset({"entries"})),
        Call("RiskCurve.of_owners", one.of_owners, {"chosen": _mask}, frozenset({"chosen"})),
        Call("log_martingale", log_martingale, {"p_values": _NUMBERS}, frozenset({"p_values"})),
    ]  # fmt: skip


def _evaluating(these: Subjects) -> list[Call]:
    ranked = {"scores": lambda random: random.random(5).tolist(),
              "relevant": lambda random: (random.random(5) < 0.6).tolist()}  # fmt: skip
    table = _one([[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]], [[1.0]], [])

    def named(random: Random) -> Any:
        return _one({"a": these.measure(random)}, {"b": these.model(random)}, {})(random)

    def shares(training: Any = 0.3, calibration: Any = 0.3, user: Any = 1, **given: Any) -> Any:
        return evaluation.split_user(
            these.data, user, shares=evaluation.Shares(training, calibration), **given
        )

    def backtest(recipe: Any, days: Any, calendar: dict[str, Any], **given: Any) -> Any:
        windows = evaluation.Calendar(days, **calendar) if isinstance(calendar, dict) else calendar
        return evaluation.backtest(these.data, recipe, windows, **given)

    order = _one("time", "random")
    return [
        Call("ranking_metrics", evaluation.ranking_metrics, {**ranked, "k": _WHOLE},
             frozenset(ranked)),
        Call("hits_curve", evaluation.hits_curve, {**ranked, "k_max": _WHOLE}, frozenset(ranked)),
        Call("mean_and_error", evaluation.mean_and_error, {"values": _NUMBERS},
             frozenset({"values"})),
        Call("dataset_ranks", evaluation.dataset_ranks, {"table": table}, frozenset({"table"})),
        Call("average_ranks", evaluation.average_ranks, {"table": table}, frozenset({"table"})),
        Call("friedman", evaluation.friedman, {"table": table, "alpha": _SHARE},
             frozenset({"table"})),
        Call("nemenyi_critical_difference", evaluation.nemenyi_critical_difference,
             {"k": _one(2, 5), "n": _one(2, 7), "alpha": _SHARE}, frozenset({"k", "n"}), 0.5),
        Call("cd_groups", evaluation.cd_groups, {"ranks": _NUMBERS, "cd": _SHARE},
             frozenset({"ranks", "cd"})),
        Call("choose_users", evaluation.choose_users,
             {"interactions": _one(these.data, these.tiny), "n_users": _WHOLE,
              "min_length": _WHOLE, "seed": _SEED}, frozenset({"interactions"})),
        Call("split_user, with Shares", shares,
             {"training": _SHARE, "calibration": _SHARE, "user": _one(0, 39, 40), "order": order,
              "seed": _SEED}),
        Call("validity", evaluation.validity,
             {"counts": _one(np.array([1, 3, 4])), "levels": _one(4),
              "relevant": _one(np.array([True, False, True])),
              "epsilons": _one((0.25, 0.75), (0.1,))},
             frozenset({"counts", "levels", "relevant"})),
        Call("evaluate", evaluation.evaluate,
             {"algorithms": named, "data": these.some_data, "n_users": _one(1, 5),
              "order": order, "shares": _one(None, evaluation.Shares(0.2, 0.3)), "k": _WHOLE,
              "seed": _SEED}, frozenset({"algorithms", "data"})),
        Call("backtest", backtest,
             {"recipe": these.measure, "days": _one(30, 60.0),
              "calendar": _one({}, {"min_users": 2, "min_known": 2}, {"horizon": 2},
                               {"n_users": 3}, {"seed": "x"}, {"ties": "x"}, {"horizon": None}),
              "cut": _one("rank", "score"), "promise": _one("miss-rate", "hit"),
              "epsilons": _one([0.1, 0.3]), "n_windows": _one(None, 1)},
             frozenset({"recipe", "days", "calendar"}), 0.5),
        Call("audit", audit,
             {"data": lambda random: _one(these.data, these.counts, these.given, these.tiny,
                                          these.model(random))(random),
              "measure": these.measure, "make_scorer": _one(None, None, "CM3"),
              "name": _one(None, "mine"), "n_users": _one(20, 30), "window": _one(None, 30, 60.0),
              "seed": _SEED}, frozenset({"data", "n_users"}), 0.4),
    ]  # fmt: skip


def _testing(these: Subjects) -> list[Call]:
    only = _some(_one("known user", "new history", "p-values", "parameters", "x"), 3)

    def check(make: Any, scorer: Any, wanted: Any, data: Any = None) -> None:
        testing.check_recommender(testing.Subject(make, data, scorer), wanted)

    return [
        Call("check_scorer", testing.check_scorer,
             {"scorer": these.measure, "data": _one(these.data), "only": only},
             frozenset({"scorer", "data", "only"}), 0.5, may_fail=True),
        Call("check_recommender", check,
             {"make": _one(sr.InductiveConformal, sr.PrecedenceMining, lambda: 5),
              "scorer": _one(None), "wanted": only, "data": _one(these.data)},
             frozenset({"make", "scorer", "wanted", "data"}), 0.5, may_fail=True),
        Call("check_leaves_users_out", testing.check_leaves_users_out,
             {"recipe": these.measure, "data": _one(these.data, these.tiny),
              "n_users": _one(1, 2), "seed": _SEED}, frozenset({"recipe", "data"}), 0.5,
             may_fail=True),
    ]  # fmt: skip


def calls(these: Subjects) -> list[Call]:
    """Give everything that is called."""
    return [
        *_recommenders(these),
        *_asking(these),
        *_data(these),
        *_measuring(these),
        *_statistics(),
        *_evaluating(these),
        *_testing(these),
    ]
