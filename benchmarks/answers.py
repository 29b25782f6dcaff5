"""Record the answers of every recommender, and compare two recordings.

A refactoring must not change a number::

    python -m benchmarks.answers record before.json
    python -m benchmarks.answers record after.json
    python -m benchmarks.answers compare before.json after.json

Floats are recorded exactly. Texts (guarantees, explanations) are compared separately.
"""

from __future__ import annotations

import hashlib
import json
import re
import subprocess
import sys
import tempfile
import time
import warnings
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final
from urllib.request import Request, urlopen

import numpy as np
import polars as pl
from implicit.als import AlternatingLeastSquares

import surerec as sr
from surerec.errors import NotSupportedError

if TYPE_CHECKING:
    from collections.abc import Iterator

    Answers = Iterator[tuple[str, dict[str, Any]]]

_FIRST: Final = 5  # values recorded with the hash of a column
_FORMULAS: Final = list(sr.MEASURES)
_LEVELS: Final = (0.5, 0.8, 0.9, 0.95)
_OVER_USERS: Final[dict[str, dict[str, Any]]] = {
    "recall": {},
    "hit": {"guarantee": "hit", "horizon": 5, "threshold": "rank"},
    "precision": {"guarantee": "precision"},
    "lengths": {"segments": 3},
    "temporal": {"window": 30.0},
}


def _column(values: Any) -> dict[str, Any]:
    array = values.to_numpy() if isinstance(values, pl.Series) else np.asarray(values)
    texts = [value.hex() if isinstance(value, float) else str(value) for value in array.tolist()]
    digest = hashlib.sha256("\n".join(texts).encode()).hexdigest()[:16]
    return {"n": len(texts), "first": texts[:_FIRST], "hash": digest}


def _frame(frame: pl.DataFrame) -> dict[str, Any]:
    return {name: _column(frame[name]) for name in frame.columns if name != "title"}


def _set(found: Any) -> dict[str, Any]:
    return {
        **_frame(found.to_frame()),
        "full_size": found.full_size,
        "n_candidates": found.n_candidates,
        "highest": float(found.highest_confidence).hex(),
        "words": [str(found.guarantee), found.about_probability],
    }


def _models(data: Any, user_segments: dict[Any, str], *, slow: bool) -> Iterator[tuple[str, Any]]:
    learned = ["learned", "als"] if slow else []
    for measure in [*_FORMULAS, *learned]:
        yield f"item {measure}", sr.InductiveConformal(measure).fit(data)
    yield "item smoothed", sr.InductiveConformal("CM12", smoothed=True, random_state=3).fit(data)
    for name in ("max", "median"):
        yield f"transductive {name}", sr.TransductiveConformal(name).fit(data)
    for top in (None, 1):
        yield f"mining {top}", sr.PrecedenceMining(top).fit(data)
    for measure in ["CM3", "CM12", "NCM15", *learned]:
        for name, more in _OVER_USERS.items():
            yield f"{name} {measure}", sr.PopulationConformal(measure, **more).fit(data)
    segmented = sr.PopulationConformal("CM12", segments=("country", 2))
    yield "segments CM12", segmented.fit(data, user_segments=user_segments)
    listed = {"listed": data.items.ids[: data.n_items // 3].to_list()}
    yield "lists CM12", sr.PopulationConformal("CM12").fit(data, item_lists=listed)
    wrapped = sr.wrap(_nearest(data.n_items), items=data.items.ids.to_list(), name="nearest")
    rows = data.to_frame().with_columns(
        (pl.int_range(pl.len()).over("user_id") < 0.6 * pl.len().over("user_id")).alias("past")
    )
    parts = (rows.filter(pl.col("past") == known).drop("past") for known in (True, False))
    yield "wrapped", wrapped.calibrate(*parts)
    if slow:
        als = AlternatingLeastSquares(factors=8, random_state=1, num_threads=1)
        yield "wrapped als", sr.wrap(als).fit(data)


def _nearest(n_items: int) -> Any:
    def score(history: Any) -> Any:
        return -np.abs(np.arange(n_items) - int(history[-1])).astype(float)

    return score


def _answers(model: Any, name: str, data: Any) -> Answers:
    features = model.model_.features
    users = data.users.ids.gather(np.arange(0, data.n_users, max(1, data.n_users // 5))).to_list()
    history = data.items.ids[:7].to_list()
    levels = [{"confidence": level} for level in _LEVELS] if "confidence" in features else [{}]
    if name.startswith("precision"):
        levels = [{"precision": 0.3, "confidence": 0.8}]
    more = {"segment": "AT"} if name.startswith("segments") else {}
    for level in levels:
        for user in users:
            yield f"set {user} {level}", _set(model.recommend(user, **level))
        yield f"history {level}", _set(model.recommend(history=history, **more, **level))
    yield "k", _set(model.recommend(users[0], k=5, exclude=history[:2], **levels[0]))
    yield "many", _frame(model.recommend_many(users, **levels[-1]))
    yield "many k", _frame(model.recommend_many(k=3, **levels[-1]))
    if "listed" in model.item_lists_:
        yield "list", _set(model.recommend(users[0], item_list="listed", **levels[0]))
    if "confidence" in features:
        yield "p-values", _frame(model.p_values(users[1]))
    for item in model.recommend(users[2], k=1, **levels[-1]).items:
        yield "explanation", {"words": [str(model.explain(users[2], item=item))]}
    yield from _groups(model, users, levels[0])


def _groups(model: Any, users: list[Any], level: dict[str, float]) -> Answers:
    for kind in model.model_.offers_group_guarantee():
        for size in (2, 3):
            try:
                found = model.recommend(group=users[:size], group_guarantee=kind, **level)
            except NotSupportedError as error:
                yield f"group of {size} {kind}", {"words": [str(error)]}
            else:
                served = _column(np.array(found.satisfaction))
                yield f"group of {size} {kind}", {**_set(found), "served": served}


def _over_surfaces(model: Any, data: Any) -> Answers:
    """Query a saved model from Python, the command line, HTTP and a live model."""
    user, item = data.users.ids[3], data.items.ids[5]
    with tempfile.TemporaryDirectory() as folder:
        place = Path(folder) / "model"
        model.save(place)
        yield "loaded", _set(sr.load(place).recommend(user, confidence=0.9))
        run = [sys.executable, "-m", "surerec", "recommend", str(place), "--user", str(user)]
        done = subprocess.run(  # noqa: S603
            [*run, "--confidence", "0.9", "--format", "json"], capture_output=True, check=True
        )
        yield "command line", {"words": [done.stdout.decode()]}
        yield from _http(place, user, item)
        with sr.Live.create(Path(folder) / "live", model) as live:
            for at, each in enumerate(data.items.ids[:40].to_list()):
                live.observe({"user": int(at) % 7, "item": each, "time": 1_700_000_000 + at})
            yield "live", _set(live.recommend(user, confidence=0.9))


def _http(place: Path, user: Any, item: Any) -> Answers:
    run = [sys.executable, "-m", "surerec", "serve", str(place), "--workers", "1", "--port", "0"]
    server = subprocess.Popen(run, stderr=subprocess.PIPE, text=True)  # noqa: S603
    try:
        lines = iter(server.stderr or ())
        address = next(found[0] for line in lines if (found := re.findall(r"http://[^ /]+", line)))
        while not _ready(address):
            time.sleep(0.1)
        for path, body in {
            "recommendations": {"user": user, "confidence": 0.9},
            "p-values": {"user": user, "items": [item]},
            "explanations": {"user": user, "item": item},
            "recommendations/batch": {"users": [user], "k": 3},
        }.items():
            sent = Request(  # noqa: S310  # our own server
                f"{address}/v1/{path}",
                json.dumps(body).encode(),
                {"Content-Type": "application/json"},
            )
            with urlopen(sent) as answer:  # noqa: S310
                yield f"http {path}", {"words": [answer.read().decode()]}
    finally:
        server.terminate()
        server.wait()


def _ready(address: str) -> bool:
    try:
        with urlopen(f"{address}/readyz"):  # noqa: S310
            return True
    except OSError:
        return False


def record() -> dict[str, dict[str, Any]]:
    """Return all answers by data, recommender and query."""
    synthetic = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=6_000, random_state=4)
    found: dict[str, dict[str, Any]] = {}
    for data, slow in ((synthetic, True), (sr.load_dataset("ml-100k"), False)):
        segments = {user: ("AT", "DE")[place % 2] for place, user in enumerate(data.users.ids)}
        for name, model in _models(data, segments, slow=slow):
            for question, answer in _answers(model, name, data):
                found[f"{data.name} | {name} | {question}"] = answer
            if name == "recall CM12":
                for question, answer in _over_surfaces(model, data):
                    found[f"{data.name} | {name} | {question}"] = answer
            print(f"{data.name}: {name}", file=sys.stderr)
    return found


def compare(before: dict[str, Any], after: dict[str, Any]) -> int:
    """Print the differences of numbers and texts; return the number of differing numbers."""
    numbers = words = 0
    for key in before.keys() | after.keys():
        old, new = before.get(key), after.get(key)
        if old is None or new is None:
            print(f"only {'after' if old is None else 'before'}: {key}")
            numbers += 1
            continue
        for field in sorted(old.keys() | new.keys()):
            if old.get(field) != new.get(field):
                words, numbers = words + (field == "words"), numbers + (field != "words")
                print(f"{key} | {field}:\n  {old.get(field)}\n  {new.get(field)}")
    print(f"{len(before):,} answers; {numbers:,} numbers and {words:,} texts differ")
    return numbers


def main(arguments: list[str]) -> int:
    """Run `record FILE` or `compare FILE FILE`."""
    command, *files = arguments
    if command == "record":
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            Path(files[0]).write_text(json.dumps(record(), indent=0, sort_keys=True))
        return 0
    before, after = (json.loads(Path(file).read_text()) for file in files)
    return 1 if compare(before, after) else 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
