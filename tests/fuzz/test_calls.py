"""Random calls of the public API: each answers, or refuses with one sentence.

Arguments are drawn by the name of the parameter: mostly right ones, some of any kind at all. One
other error may pass: what Python says of arguments that are missing.
"""

import datetime as dt
import decimal
import inspect
import re
import warnings
from contextlib import chdir
from functools import cache
from pathlib import Path

import numpy as np
import pandas as pd
import polars as pl
from hypothesis import HealthCheck, assume, given, settings
from hypothesis import strategies as st

import surerec as sr
from surerec import conformal, evaluation, measures
from surerec.audit import log_martingale

PYTHONS_OWN = re.compile(r"unexpected keyword|required .*argument|positional arguments? but")
FRAME = pl.DataFrame({"user": [1, 1, 2], "item": [1, 2, 1], "time": [1, 2, 3]})
WILD = [
    None, 5, 0, -1, 1, True, 0.5, 2.5, 1e300, np.inf, -np.inf, np.nan, 10**18, -(10**30), 10**5000,
    "", "x", "5", "\ud800", "a\nb\x00c", "y" * 5_000, "2024-01-01", b"", b"x", object(), [], {},
    set(), [1, 2], [1, [2]], [None], ["x", 3], {"x": 1}, {1: 2}, {1, 2, 3}, range(3), np.arange(4),
    np.array(5), np.arange(6).reshape(2, 3), np.array([]), np.array(["a", "b"]), np.array([1 + 2j]),
    np.array([object(), None]), np.array([True, False, True]), np.array([np.nan, np.inf, 1.0]),
    np.array([1, 2], dtype="datetime64[s]"), np.int8(3), np.uint64(2**64 - 1), np.float32(0.5),
    np.bool_(True), np.datetime64("2024-01-01"), np.random.default_rng(1), FRAME, FRAME.lazy(),
    FRAME.to_pandas(), pl.Series([1, 2, 3]), pl.Series(["a", None]), pd.Series([1.5, None]), pd.NA,
    dt.date(2024, 1, 1), dt.datetime(2024, 1, 1, tzinfo=dt.UTC), dt.timedelta(days=3),
    decimal.Decimal("0.3"), Path("nowhere"), print, slice(1, 2), ..., 3j,
]  # fmt: skip
NUMBERS = [[0.1, 0.5, 1.0], [2, -3.5, 0.0, 2], []]
CODES = [[0, 1, 2], [5, 3], [], np.array([3])]
IDS = [[1, 2, 5], ["5", 19], [99], []]
LEVELS = [0.05, 0.5, 0.8, 0.9, 0.999999]


FUNCTIONS = (
    sr.read_interactions, sr.count_precedence, log_martingale,
    measures.as_measure, measures.as_scorer, measures.find_measure, conformal.p_value_counts,
    conformal.smoothed_p_values, conformal.in_set, conformal.left_out_up_to,
    conformal.entry_confidence, conformal.highest_confidence, conformal.significance_of,
    conformal.users_needed, conformal.venn_abers, evaluation.ranking_metrics,
    evaluation.mean_and_error,
    evaluation.dataset_ranks, evaluation.average_ranks, evaluation.friedman,
    evaluation.nemenyi_critical_difference, evaluation.choose_users,
    evaluation.evaluate,
)  # fmt: skip
METHODS = (
    "recommend", "recommend_many", "p_values", "explain", "save", "get_params", "recalibrate",
    "age", "consumed", "times_of", "profile", "until", "without_users", "title", "code", "codes",
    "require", "near", "select", "followers", "predecessors", "items_outside", "without_user",
    "consumed_by", "profile_of",
)  # fmt: skip


@cache
def data():
    return sr.datasets.synthetic(n_users=40, n_items=20, n_rows=400, days=300, random_state=1)


@cache
def counts():
    return sr.count_precedence(data())


@cache
def given_counts():
    table = [[0, 2, 1], [0, 0, 1], [0, 0, 0]]
    return sr.PrecedenceStatistics.from_counts(table, [3, 3, 2], n_users=4)


@cache
def models():
    return [
        sr.InductiveConformal("CM12").fit(counts()),
        sr.InductiveConformal("CM3", smoothed=True, random_state=3).fit(counts()),
        sr.TransductiveConformal().fit(counts()),
        sr.PrecedenceMining().fit(counts()),
        sr.PopulationConformal("CM12").fit(counts()),
        sr.PopulationConformal("CM8", guarantee="hit", horizon=2, window=60).fit(counts()),
        sr.InductiveConformal("CM4").fit(given_counts()),
        sr.PopulationConformal("CM4"),
    ]


@cache
def right():
    """Right values by the name of the parameter."""
    measure = ["CM12", "CM1", 3, "icrs5", "NCM17", "mean-share"]
    some_data = [data(), counts(), given_counts(), data().until(int(np.median(data().times)))]
    frame = data().to_frame()
    return {
        "user": [1, 2, "7", np.int64(3), 40, 0], "item": [1, 5, "5", np.int64(3), 99],
        "history": IDS, "items": IDS, "exclude": IDS, "users": IDS, "values": IDS, "known": CODES,
        "confidence": LEVELS, "significance": LEVELS, "alpha": LEVELS, "level": LEVELS,
        "epsilons": [(0.1, 0.3)], "k": [1, 3, 10, 40], "n": [1, 3], "n_users": [3, 30],
        "n_items": [5, 30], "n_rows": [30, 60], "random_state": [0, 7, 2**64 - 1],
        "measure": measure, "recipe": measure, "given": measure, "guarantee": ["recall", "hit"],
        "data": some_data,
        "interactions": some_data, "statistics": some_data, "horizon": [0.4, 2],
        "threshold": ["rank", "score"], "window": [None, 60], "train_share": [0.3, 0.5],
        "aggregate": ["max", "median"], "zeros": ["exact", "product"], "top": [1, 2],
        "ties": ["order", "strict", 0.2], "strategy": ["auto", "dense", "bounded"],
        "source": [frame, frame.to_pandas(), frame.to_arrow(), "nowhere.csv"], "code": [0, 3],
        "time": [0, "datetime", 2**62], "calibration": NUMBERS, "candidates": NUMBERS,
        "uniforms": NUMBERS, "entries": NUMBERS, "scores": NUMBERS, "ranks": NUMBERS,
        "p_values": NUMBERS, "owners": CODES, "counts": [*CODES, [[0, 2], [1, 0]]],
        "support": [[3, 3]], "levels": [4, 10], "n_calibration": [4, 30],
        "table": [[[0.9, 0.8, 0.7], [0.6, 0.5, 0.4]]], "relevant": [[True, False, True]],
        "happened": [[True, False, True]], "offsets": [[0, 2, 3], [0, 1], [0, 3, 2]],
        "drift": [0.2], "days": [30], "sequels": [0.1], "refit": [False, True],
        "name": [None, "films"], "folder": ["new"],
    }  # fmt: skip


@cache
def targets():
    """Everything that is called, by name."""
    found = {function.__name__: function for function in FUNCTIONS}
    found["synthetic"] = sr.datasets.synthetic
    found["from_profiles"] = sr.Interactions.from_profiles
    found["from_counts"] = sr.PrecedenceStatistics.from_counts
    objects = [data(), data().items, counts(), given_counts(), *models()]
    for number, each in enumerate(objects):
        for name in METHODS:
            if hasattr(type(each), name):
                found[f"{type(each).__name__} {number}.{name}"] = getattr(each, name)
    kinds = (
        sr.InductiveConformal, sr.PopulationConformal, sr.TransductiveConformal, sr.PrecedenceMining
    )  # fmt: skip
    for kind in kinds:
        found[kind.__name__] = fit_and_ask(kind)
    return found


def fit_and_ask(kind):
    def call(data, user=1, **parameters):
        model = kind(**parameters).fit(data)
        model.recommend(user, k=3)
        return model

    own = [*inspect.signature(call).parameters.values()][:2]
    own += inspect.signature(kind).parameters.values()
    call.__signature__ = inspect.Signature([p.replace(kind=p.KEYWORD_ONLY) for p in own])
    return call


def draw_arguments(draw, function):
    share_wild = draw(st.sampled_from([0, 0, 1, 4]))
    arguments = {}
    for name, parameter in inspect.signature(function).parameters.items():
        is_variable = parameter.kind in (parameter.VAR_POSITIONAL, parameter.VAR_KEYWORD)
        has_default = parameter.default is not parameter.empty
        if is_variable or (has_default and draw(st.integers(0, 2)) == 0):
            continue
        is_wild = draw(st.integers(0, 9)) < share_wild
        if name not in right() and not is_wild:
            if has_default:
                continue
            is_wild = True
        arguments[name] = draw(st.sampled_from(WILD if is_wild else right()[name]))
    return arguments


def look_at(answer):
    """Use an answer as a user does: it must not break when it is looked at."""
    repr(answer), str(answer)
    for method in ("to_frame", "_repr_html_"):
        if hasattr(answer, method) and not isinstance(answer, type):
            getattr(answer, method)()


def check_message(text):
    assert 0 < len(text) < 3_000
    assert "\n" not in text


@settings(max_examples=500, derandomize=True, suppress_health_check=list(HealthCheck))
@given(st.data())
def test_every_call_answers_or_refuses_in_a_sentence(tmp_path_factory, data):
    function = targets()[data.draw(st.sampled_from(sorted(targets())))]
    parameters = inspect.signature(function).parameters.values()
    positional = [each.name for each in parameters if each.kind == each.POSITIONAL_ONLY]
    arguments = draw_arguments(data.draw, function)
    assume(not positional)
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        try:
            with chdir(tmp_path_factory.mktemp("calls")):
                look_at(function(**arguments))
        except sr.errors.SurerecError as error:
            check_message(str(error))
        except TypeError as error:
            if not PYTHONS_OWN.search(str(error)):
                raise
