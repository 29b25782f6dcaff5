"""Random command lines: every subcommand, its options, and valid and invalid values."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import TypeAlias

import numpy as np

import surerec as sr
from surerec.recommenders import save_all

Random: TypeAlias = np.random.Generator
Line: TypeAlias = Callable[[Random], list[str]]
Draw: TypeAlias = Callable[[Random], str]

_WRONG = (0.0, 0.1, 0.3)  # shares of invalid values; some lines are valid
_GIVEN = 0.35
# No path leaves the scratch folder, as a value may become an output; the working directory is two
# folders down. No path is a file that a valid line could replace.
_WILD = (
    "", " ", "x", "-1", "0", "1", "5", "0.5", "1e300", "inf", "-inf", "nan", "99999999999999999999",
    "None", "true", "🎬", "a\nb", "é" * 300, "../..", ".", "made/../other", "log.csv/x",
    "nowhere", "[bold]x[/bold]", "--help", "--", "-", "%s{}", "\udcff", ",",
)  # fmt: skip


def make_files() -> None:
    """Write data, a model and other files to the working directory."""
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=700, days=300, random_state=3)
    frame = films.to_frame()
    frame.write_csv("log.csv")
    frame.write_parquet("log.parquet")
    frame.filter(frame["datetime"] < frame["datetime"].quantile(0.9)).write_csv("then.csv")
    Path("users.txt").write_text("7\n9\n")
    Path("bad.csv").write_text("user,item,time\n1,2,never\n")
    Path("empty.csv").write_text("")
    Path("other").mkdir()
    Path("other", "note.txt").write_text("mine")
    counts = sr.count_precedence(sr.read_interactions("then.csv"))
    made = {
        "icrs3": sr.InductiveConformal("CM3"),
        "recall-cm12": sr.PopulationConformal("CM12"),
        "precedence-mining": sr.PrecedenceMining(),
    }
    save_all("model", {name: model.fit(counts) for name, model in made.items()})


def _wild(random: Random) -> str:
    return _WILD[int(random.integers(len(_WILD)))]


def _one(*values: str) -> Draw:
    def draw(random: Random) -> str:
        return values[int(random.integers(len(values)))]

    return draw


_RIGHT_DATA = ("log.csv", "log.parquet", "then.csv")
_DATA = _one(*_RIGHT_DATA * 3, "bad.csv", "empty.csv", "nowhere.csv", "other")
_MODEL = _one(*["model"] * 12, "nowhere", "other", "log.csv")
_NEW = _one("made/a", "made/b", "made/c/d", "other", "made/a.csv", "made/a.parquet")
_USER = _one("1", "7", "9", "12", "17", "60", "10", "2", "unknown")
_HISTORY = _one("1,2,3", "5", "1,900", "900", ",")
_LEVEL = _one("0.5", "0.8", "0.9", "0.99", "0.3", "90")
_WHOLE = _one("1", "3", "10", "100")
_NAME = _one("icrs3", "recall-cm12", "precedence-mining", "icrs9")
_FORMAT = _one("table", "json", "csv", "parquet")
_FLAG = _one("")
_READING: dict[str, Draw] = {
    "--columns": _one("user_id,item_id,datetime", "a,b"),
    "--user-column": _one("user_id", "x"),
    "--item-column": _one("item_id"),
    "--time-column": _one("datetime"),
    "--rating-column": _one("x"),
    "--rating-above": _one("0", "3.5"),
    "--min-profile-length": _WHOLE,
    "--time-format": _one("s", "%Y"),
    "--skip-bad": _FLAG,
}
_ODD = [*_READING.values(), _HISTORY]
_OFTEN, _SELDOM = 0.9, 0.1
_NEEDED = {
    "recommend": {"--user": _OFTEN, "--significance": _SELDOM, "--output": _SELDOM},
    "recommend --all": {"--output": _OFTEN, "--significance": _SELDOM, "--users": _SELDOM},
    "explain": {"--user": _OFTEN, "--item": _OFTEN, "--output": _SELDOM},
    "audit": {"--n-users": 1.0},
    "reproduce": {"--output": _OFTEN, "--datasets": 1.0},
    "keys create": {"--name": _OFTEN},
}
"""Probabilities of options without which a command answers little, or takes long."""
_QUERY = {"--user": _USER, "--history": _HISTORY, "--recommender": _NAME}


def _line(
    command: str, arguments: tuple[Draw, ...], options: dict[str, Draw], given: float = _GIVEN
) -> Line:
    """Return a generator of lines of one command, with random options and values."""

    def draw(random: Random) -> list[str]:
        wrong, share = _WRONG[int(random.integers(len(_WRONG)))], given * random.random() * 2
        words = [_wild(random) if random.random() < wrong else each(random) for each in arguments]
        for name, right in options.items():
            probability = _NEEDED.get(command, {}).get(name, share / 4 if right in _ODD else share)
            if random.random() >= probability:
                continue
            value = _wild(random) if random.random() < wrong else right(random)
            words += [name] if right is _FLAG else [name, value]
        if random.random() < 0.03:
            words.append(_one("--nonsense", "extra", "--k")(random))
        return [*command.split(), *words]

    return draw


def _no_network(line: Line) -> Line:
    """Replace names of the catalogue, which would be downloaded."""

    def draw(random: Random) -> list[str]:
        return ["x" if word in sr.datasets.CATALOGUE else word for word in line(random)]

    return draw


def _invalid_serving(random: Random) -> list[str]:
    """Return an invalid `serve` line, as a valid one would not end."""
    wrong = _one("nowhere", "other", "log.csv", "")(random)
    lines = (
        ["serve", wrong, "--port", "0"],
        ["serve", "model", "--port", _one("x", "-1", "99999", "1e3")(random)],
        ["serve", "model", "--workers", _one("0", "-3", "x", "nan")(random)],
        ["serve", "model", "--threads", _one("0", "-3", "x")(random)],
        ["serve", "model", "--port", "0", "--keys", _one("nowhere", "other", "log.csv")(random)],
        ["serve", "model", "--port", "0", "--request-timeout", _one("nan", "-1", "0")(random)],
        ["serve", "model", "--port", "0", "--log-level", _one("loud", "")(random)],
        ["serve", "model", "--port", "0", "--log-format", "x"],
        ["serve", "model", "--port", "0", "--rate", _one("0", "-5", "nan")(random)],
        ["serve", "model", "--port", "0", "--host", "0.0.0.0"],  # noqa: S104  # an error without keys
        ["serve"],
    )
    return lines[int(random.integers(len(lines)))]


LINES: list[Line] = [
    _no_network(
        _line(
            "fit",
            (_DATA, _NEW),
            {
                **_READING,
                "--recommender": _one("icrs12", "icrs3", "crs-max", "recall-cm12", "hit-cm4"),
                "--horizon": _one("0.4", "5"),
                "--threshold": _one("rank", "score"),
                "--segments": _WHOLE,
                "--window": _one("30", "1e9"),
                "--ties": _one("order", "strict"),
                "--strategy": _one("auto", "dense", "bounded"),
                "--memory": _one("1GB", "0", "x"),
                "--overwrite": _FLAG,
                "--sequence": _one("row"),
            },
            0.15,
        )
    ),
    _line(
        "recommend",
        (_MODEL,),
        {
            **_QUERY,
            "--confidence": _LEVEL,
            "--significance": _LEVEL,
            "--k": _WHOLE,
            "--exclude": _HISTORY,
            "--show": _WHOLE,
            "--format": _FORMAT,
            "--output": _NEW,
        },
    ),
    _line(
        "recommend --all",
        (_MODEL,),
        {
            "--output": _one("made/a.csv", "made/b.parquet", "made/x.txt", "no/y.csv"),
            "--users": _one("users.txt", "log.parquet", "nowhere", "empty.csv"),
            "--confidence": _LEVEL,
            "--significance": _LEVEL,
            "--k": _WHOLE,
            "--recommender": _NAME,
        },
        0.5,
    ),
    _line(
        "explain",
        (_MODEL,),
        {
            "--item": _one("1", "2", "3", "9", "20", "28", "900"),
            **_QUERY,
            "--show": _WHOLE,
            "--format": _FORMAT,
            "--output": _NEW,
        },
        0.5,
    ),
    _no_network(
        _line("recalibrate", (_DATA, _MODEL, _NEW), {**_READING, "--no-refit": _FLAG}, 0.1)
    ),
    _line("measures", (), {"--format": _one("table", "json", "x")}),
    _no_network(
        _line(
            "audit",
            (_one("log.csv", "model", "bad.csv", "nowhere.csv", "other"),),
            {
                "--measure": _one("CM3", "x"),
                "--recommender": _NAME,
                "--n-users": _one("20", "30", "5"),
                "--window": _one("30", "60"),
                "--random-state": _one("0", "1"),
                "--output": _one("made/audit", "other", "log.csv"),
                "--overwrite": _FLAG,
                "--ties": _one("order", "strict"),
                "--columns": _one("a,b"),
            },
            0.4,
        )
    ),
    _no_network(
        _line(
            "reproduce",
            (),
            {
                "--datasets": _one("nowhere.csv", "x", "", "a=b", "bad.csv", "empty.csv"),
                "--output": _one("made/r", "other", "log.csv"),
                "--n-users": _one("5", "0"),
                "--random-state": _one("0"),
                "--k": _one("5"),
                "--resume": _FLAG,
                "--overwrite": _FLAG,
            },
            0.95,
        )
    ),
    _no_network(_line("describe", (_DATA,), _READING)),
    _line("datasets", (), {}),
    _line("datasets fetch", (_one("x", "ml100k", "", "flixster", "🎬"),), {"--force": _FLAG}),
    _line("keys create", (_one("made/keys.json", "other", "log.csv", "no/keys.json"),),
          {"--name": _one("shop", ""), "--scope": _one("read", "admin", "x")}, 0.8),
    _line("keys list", (_one("made/keys.json", "other", "log.csv", "nowhere"),), {}),
    _line("keys revoke", (_one("made/keys.json", "log.csv", "nowhere"), _one("x", "")), {}),
    _invalid_serving,
    _line("", (), {"--version": _FLAG, "--help": _FLAG}),
]  # fmt: skip
LINES += [*LINES[:5], *LINES[1:5], *LINES[1:4]]  # fit and queries more often
