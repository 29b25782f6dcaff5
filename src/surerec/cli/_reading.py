"""The options of every command that reads ratings, and of every request, written once."""

from __future__ import annotations

import inspect
from dataclasses import dataclass
from functools import wraps
from typing import TYPE_CHECKING, Any

from surerec.cli import _options as opt
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.interactions import Interactions


Reading = dict[str, Any]
"""How files are read, as the options say it; nothing for what was not given."""


@dataclass(frozen=True)
class Reader:
    """Reads the data when it is called, so that other options are checked before the wait."""

    source: str
    """The argument as it was typed."""
    options: Reading
    """How to read it."""

    def __call__(self) -> Interactions:
        """Read."""
        return opt.read(self.source, **self.options)

    def words(self) -> list[str]:
        """Give what was typed of it, for a command that is to read it in the same way.

        Examples
        --------
        >>> Reader("log.csv", {"user": "who", "min_profile_length": 5, "skip_bad": True}).words()
        ['log.csv', '--user', 'who', '--min-profile-length', '5', '--skip-bad']
        """
        found = [opt.source_name(self.source)]
        for name, value in self.options.items():
            found.append(f"--{name.replace('_', '-')}")
            if value is not True:
                found.append(str(value))
        return found


def _reading(
    *,
    columns: opt.Columns = None,
    user: opt.UserColumn = None,
    item: opt.ItemColumn = None,
    time: opt.TimeColumn = None,
    rating: opt.RatingColumn = None,
    title: opt.TitleColumn = None,
    titles: opt.Titles = None,
    threshold: opt.Threshold = None,
    min_profile_length: opt.MinProfileLength = 1,
    time_format: opt.TimeFormat = None,
    skip_bad: opt.SkipBad = False,
    query: opt.Query = None,
) -> None:
    """Hold the options that say how a file is read."""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose first parameter is a Reader the argument DATA and these options."""
    own = inspect.signature(command, eval_str=True)
    first, *others = own.parameters.values()
    data = first.replace(annotation=opt.Data)

    @wraps(command)
    def run(*, reading: Reading, **given: Any) -> None:
        command(Reader(given.pop(data.name), reading), **given)

    reading = inspect.Parameter("reading", inspect.Parameter.KEYWORD_ONLY)
    arguments = [p for p in others if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    only_options = [p for p in others if p.kind is inspect.Parameter.KEYWORD_ONLY]
    return takes_reading(
        _as(run, own.replace(parameters=[data, *arguments, reading, *only_options]))
    )


def takes_reading(command: Callable[..., None]) -> Callable[..., None]:
    """Add these options to a command in the place of its parameter `reading`, a Reading."""
    return _expanded(command, "reading", _reading)


def takes_options(command: Callable[..., None]) -> Callable[..., None]:
    """Add the request options to a command in the place of its parameter `options`, a dict."""
    return _expanded(command, "options", _options)


def _options(
    *,
    confidence: opt.Confidence = None,
    significance: opt.Significance = None,
    k: opt.TopK = None,
    exclude: opt.Exclude = None,
    precision: opt.Precision = None,
    min_probability: opt.MinProbability = None,
    items: opt.Items = None,
    item_list: opt.ItemList = None,
    unknown: opt.Unknown = "check",
) -> None:
    """Hold the request options, by the names that `recommend` has for them."""


def _expanded(
    command: Callable[..., None], name: str, template: Callable[..., None]
) -> Callable[..., None]:
    """Replace a parameter by the options of a template; it gets those that were given."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(template, eval_str=True).parameters

    @wraps(command)
    def run(**given: Any) -> None:
        chosen = {each: given.pop(each) for each in options}
        said = {each: value for each, value in chosen.items() if value != options[each].default}
        command(**{name: said}, **given)

    parameters: list[inspect.Parameter] = []
    for parameter in own.parameters.values():
        parameters += options.values() if parameter.name == name else [parameter]
    return _as(run, own.replace(parameters=parameters))


def _as(run: Callable[..., None], signature: inspect.Signature) -> Callable[..., None]:
    """Give a function the signature that typer looks at."""
    run.__signature__ = signature  # type: ignore[attr-defined]
    run.__annotations__ = {}
    return run


def reads_histories(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose parameter `histories` is a Reader the options that say how to read it.

    But for the shortest profile: nobody who is asked for is left out for knowing little. Titles are
    the model's.
    """
    own = inspect.signature(command, eval_str=True)
    options = dict(inspect.signature(_reading, eval_str=True).parameters)
    for name in ("min_profile_length", "query", "title", "titles"):
        del options[name]

    @wraps(command)
    def run(**given: Any) -> None:
        reading = {name: given.pop(name) for name in options}
        path = given.pop("histories")
        if path is None:
            for name, value in reading.items():
                if value != options[name].default:
                    option = name.replace("_", "-")
                    raise InputError(f"--{option} says how to read --histories: give that too.")
        command(histories=None if path is None else (path, opt.chosen(reading)), **given)

    parameters = [
        p.replace(annotation=opt.Histories) if p.name == "histories" else p
        for p in own.parameters.values()
    ]
    return _as(run, own.replace(parameters=[*parameters, *options.values()]))
