"""Recommenders where people use them: on disk, over HTTP, audited, on Spark."""

from __future__ import annotations

import json
import re
import subprocess
import sys
import time
from typing import TYPE_CHECKING
from urllib.request import Request, urlopen

import polars as pl

from surerec._calendar import DAY
from surerec.audit import audit
from surerec.errors import InputError
from surerec.recommenders import load
from surerec.testing._subject import expect

if TYPE_CHECKING:
    from pathlib import Path

    from surerec.testing._subject import Subject

_REFUSED = "was saved without its scorer"


def _saved(subject: Subject, folder: Path) -> Path:
    place = folder / "model"
    if not place.exists():
        subject.fitted.save(place)
    return place


def save_and_load(subject: Subject, folder: Path) -> None:
    """Check that what a folder gives back answers as what was saved, its scorer given again."""
    place = _saved(subject, folder)
    back = load(place, scorer=subject.scorer)
    pairs = zip(subject.answers(back), subject.answers(subject.fitted), strict=True)
    expect(all(a.equals(b) for a, b in pairs), "loaded it answers otherwise")
    if subject.scorer is None:
        return
    try:
        load(place)
    except InputError as error:
        expect(_REFUSED in str(error), f"the reason is another one: {error}")
        return
    raise AssertionError("a folder without the scorer is loaded without it")


def served(subject: Subject, folder: Path) -> None:
    """Check that ``surerec serve`` gives the same items, or refuses a folder without the scorer."""
    place = _saved(subject, folder)
    log = folder / "serve.log"
    with log.open("wb") as out:
        command = [sys.executable, "-m", "surerec", "serve", str(place), "--port", "0"]
        server = subprocess.Popen([*command, "--workers", "1"], stderr=out)  # noqa: S603
    try:
        address = _address(server, log)
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


def _address(server: subprocess.Popen[bytes], log: Path) -> str | None:
    """Wait until a server answers; None if it ends instead."""
    end = time.monotonic() + 120
    while time.monotonic() < end:
        if found := re.search(r"^Serving .* at (http://\S+/) with", log.read_text(), re.MULTILINE):
            return found[1]
        if server.poll() is not None:
            return None
        time.sleep(0.05)
    raise AssertionError(f"the server does not answer: {log.read_text()}")


def audited(subject: Subject, _: Path) -> None:
    """Check that an audit measures it, over the calendar only if it can be fitted on the past."""
    times = subject.interactions.times
    window = max(1.0, (int(times.max()) - int(times.min())) / DAY / 6)
    found = audit(subject.fitted, n_users=60, window=window)
    kinds = set(found.coverage["kind"])
    expect({"miss-rank", "hit-rank"} <= kinds, "an audit does not measure the promises over users")
    past = any(kind.startswith("calendar") for kind in kinds)
    if not subject.fitted.recipe().refits:
        expect(not past, "what cannot be fitted on the past is audited over the calendar")
        expect(any("comes fitted" in why for why in found.skipped), "an audit does not say why")
    else:
        expect(past, f"the calendar is not audited: {found.skipped}")


def on_spark(subject: Subject, folder: Path) -> None:
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
