"""The options of requests, fits and data on all surfaces: Python, command line and HTTP.

``python -m checks.options`` writes ``docs/reference/options.md``. An option has the same name on
every surface that has it; ``EXCEPTIONS`` lists the others.
"""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Any, NamedTuple

import surerec as sr
from checks.site import ROOT, commands
from surerec.recommenders import RequestOptions
from surerec.serving import _schemas as http

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

PAGE = ROOT / "docs" / "reference" / "options.md"
_INTERNAL = ("self", "model", "options", "query", "codes", "y", "verbose", "data")
_DATA = ("interactions", "source")  # positional
_ESTIMATOR = sr.PopulationConformal


class Section(NamedTuple):
    """The names of one kind of options, by surface."""

    about: str
    python: list[str]
    cli: list[str]
    http: list[str]


class Exempt(NamedTuple):
    """Reason why an option differs between surfaces, and its other name on the command line."""

    reason: str
    cli: str | None = None


def _parameters(*functions: Callable[..., Any]) -> list[str]:
    names = dict.fromkeys(each for f in functions for each in inspect.signature(f).parameters)
    return [name for name in names if name not in (*_INTERNAL, *_DATA)]


def _options(command: str) -> list[str]:
    found = next(each for words, each in commands() if words == (command,))
    return [each.name for each in found.params if each.param_type_name == "option"]


def _fields(*requests: Any) -> list[str]:
    return list(dict.fromkeys(name for each in requests for name in each.model_fields))


def sections() -> dict[str, Section]:
    """Return the options by section."""
    many = _parameters(_ESTIMATOR.recommend_many, _ESTIMATOR.recommend_groups)
    fields = _fields(http.RecommendRequest, http.BatchRequest)
    options = list(RequestOptions.__annotations__)
    reading = [*_parameters(sr.read_interactions), "query"]
    of_data = set(_options("describe")) & {*reading, *(f"{name}_column" for name in reading)}
    of_histories = of_data & set(_options("recommend"))
    return {
        "Recommend": Section(
            "`recommend`, `recommend_many`, `recommend_groups`; `surerec recommend`; "
            "`POST /v1/recommendations` and `/v1/recommendations/batch`",
            list(dict.fromkeys([*_parameters(_ESTIMATOR.recommend), *options, *many])),
            [name for name in _options("recommend") if name not in of_histories],
            fields,
        ),
        "Explain": Section(
            "`explain`, `explain_group`; `surerec explain`; `POST /v1/explanations`",
            _parameters(_ESTIMATOR.explain, _ESTIMATOR.explain_group),
            _options("explain"),
            _fields(http.ExplanationRequest),
        ),
        "P-values": Section(
            "`p_values`; `POST /v1/p-values`",
            _parameters(_ESTIMATOR.p_values),
            [],
            _fields(http.PValuesRequest),
        ),
        "Fit": Section(
            "`PopulationConformal`, its `fit`, and `count_precedence`; `surerec fit`",
            _parameters(_ESTIMATOR, _ESTIMATOR.fit, sr.count_precedence),
            [name for name in _options("fit") if name not in of_data],
            [],
        ),
        "Read data": Section(
            "`read_interactions`; all commands that read data",
            reading,
            [name for name in _options("describe") if name in of_data],
            [],
        ),
    }


_SAVED = "A model folder holds several recommenders; in Python, `load(folder, name)`."
_CODE = "In Python, `load(folder, scorer=…)`; over HTTP, `surerec serve --scorer`."
_OUTPUT = "Of printed or written output; Python returns an object."
_BATCH = "HTTP accepts batches of user ids only."
_SPARK = "In Python, see `surerec.spark`."
_COLUMN = "A column; on the command line, `--user` and `--item` are ids."
_GROUP = "On the command line, repeat `--user`."
_NAMED = "On the command line, part of the recommender's name."
_DEFAULT = "The command line uses the default."
EXCEPTIONS: dict[str, dict[str, Exempt]] = {
    "Recommend": {
        "group": Exempt(_GROUP),
        "hits": Exempt("HTTP always returns them with `k`."),
        "groups": Exempt(_BATCH),
        "histories": Exempt(_BATCH),
        "leave_out": Exempt(_BATCH),
        "all": Exempt("In Python, leave out `users=`."),
        "recommender": Exempt(_SAVED),
        "scorer": Exempt(_CODE),
        "limit": Exempt("Number of listed items; Python returns all.", "show"),
        **dict.fromkeys(("format", "output", "table", "overwrite"), Exempt(_OUTPUT)),
        **dict.fromkeys(("engine", "master", "executor_memory"), Exempt(_SPARK)),
    },
    "Explain": {
        "group": Exempt(_GROUP),
        "recommender": Exempt(_SAVED),
        "scorer": Exempt(_CODE),
        "limit": Exempt("Number of listed items; Python returns all.", "show"),
        **dict.fromkeys(("format", "output"), Exempt(_OUTPUT)),
    },
    "P-values": {
        "recommender": Exempt(_SAVED),
        **dict.fromkeys(("group", "group_guarantee"), Exempt("Groups have no p-values.")),
    },
    "Fit": {
        **dict.fromkeys(("measure", "guarantee"), Exempt(_NAMED)),
        **dict.fromkeys(("n_calibration", "min_history", "random_state"), Exempt(_DEFAULT)),
        "item_lists": Exempt("On the command line, `surerec item-list`."),
        "recommender": Exempt("In Python, the estimator's class and parameters."),
        "pool_below": Exempt("In Python, `surerec.interactions.pool_segments`."),
        "overwrite": Exempt("In Python, `save(overwrite=True)`."),
        **dict.fromkeys(
            ("engine", "master", "executor_memory", "sequence", "task_memory"), Exempt(_SPARK)
        ),
    },
    "Read data": {
        **{
            name: Exempt(_COLUMN, f"{name}_column")
            for name in ("user", "item", "time", "rating", "title")
        },
        "n_rows": Exempt("For tests on the first rows; Python only."),
        **dict.fromkeys(("name", "origin"), Exempt("The command line uses the name of the file.")),
    },
}


def rows(name: str, section: Section) -> Iterator[tuple[str, str, str, str, str]]:
    """Yield the name of each option, its spelling on each surface, and a note."""
    exempt = EXCEPTIONS.get(name, {})
    other = {each.cli: key for key, each in exempt.items() if each.cli}
    cli = {other.get(each, each): each for each in section.cli}
    for option in dict.fromkeys([*section.python, *cli, *section.http]):
        yield (
            option,
            f"`{option}=`" if option in section.python else "",
            f"`--{cli[option].replace('_', '-')}`" if option in cli else "",
            f"`{option}`" if option in section.http else "",
            exempt[option].reason if option in exempt else "",
        )


def faults() -> list[str]:
    """Return the options that differ between surfaces and are not exempt, and the reverse."""
    found = []
    for name, section in sections().items():
        surfaces = [bool(each) for each in section[1:]]
        same = set()
        for option, *cells, _ in rows(name, section):
            cli = cells[1] in ("", f"`--{option.replace('_', '-')}`")
            if cli and all(map(bool.__eq__, map(bool, cells), surfaces)):
                same.add(option)
            elif option not in EXCEPTIONS.get(name, {}):
                found.append(f"{name}: {option} is not on all surfaces by this name")
        every = {option for option, *_ in rows(name, section)}
        found += [
            f"{name}: {option} needs no exception"
            for option in EXCEPTIONS.get(name, {})
            if option in same or option not in every
        ]
    return found


def page() -> str:
    """Return the page."""
    lines = [
        "# Options on three surfaces",
        "",
        "An option has the same name in Python (`min_probability=`), on the command line",
        "(`--min-probability`) and over HTTP (`min_probability`). Tables list the exceptions.",
        "`python -m checks.options` writes this page.",
    ]
    for name, section in sections().items():
        every = list(rows(name, section))
        same = ", ".join(f"`{option}`" for option, *_, note in every if not note)
        lines += ["", f"## {name}", "", f"{section.about}: {same}.", ""]
        lines += ["|Python|Command line|HTTP|Note|", "|---|---|---|---|"]
        exempt: dict[str, list[list[str]]] = {}
        for _, *cells, note in every:
            exempt.setdefault(note, []).append(cells)
        for note, some in exempt.items():
            cells = [", ".join(filter(None, column)) for column in zip(*some, strict=True)]
            lines += [f"|{'|'.join(cells)}|{note}|"] if note else []
    return "\n".join(lines) + "\n"


if __name__ == "__main__":
    PAGE.write_text(page(), encoding="utf-8")
