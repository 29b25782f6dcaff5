"""The options of every command that reads ratings, written once."""

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


@dataclass(frozen=True)
class Reader:
    """Reads the data when it is called, so that other options are checked before the wait."""

    source: str
    """The argument as it was typed."""
    options: dict[str, Any]
    """How to read it."""

    def __call__(self) -> Interactions:
        """Read."""
        return opt.read(self.source, **self.options)


def _reading(
    *,
    columns: opt.Columns = None,
    user: opt.UserColumn = None,
    item: opt.ItemColumn = None,
    time: opt.TimeColumn = None,
    rating: opt.RatingColumn = None,
    threshold: opt.Threshold = None,
    min_profile_length: opt.MinProfileLength = 1,
    time_format: opt.TimeFormat = None,
    skip_bad: opt.SkipBad = False,
) -> None:
    """Hold the options that say how a file is read."""


def reads_data(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose first parameter is a Reader the argument DATA and these options."""
    own = inspect.signature(command, eval_str=True)
    options = inspect.signature(_reading, eval_str=True).parameters
    first, *others = own.parameters.values()
    arguments = [p for p in others if p.kind is not inspect.Parameter.KEYWORD_ONLY]
    data = first.replace(annotation=opt.Data)

    @wraps(command)
    def run(**given: Any) -> None:
        reading = {name: given.pop(name) for name in options}
        command(Reader(given.pop(data.name), reading), **given)

    only_options = [p for p in others if p.kind is inspect.Parameter.KEYWORD_ONLY]
    run.__signature__ = own.replace(  # type: ignore[attr-defined]  # what typer looks at
        parameters=[data, *arguments, *options.values(), *only_options]
    )
    run.__annotations__ = {}
    return run


def reads_histories(command: Callable[..., None]) -> Callable[..., None]:
    """Give a command whose parameter `histories` is a Reader the options that say how to read it.

    But for the shortest profile: nobody who is asked for is left out for knowing little.
    """
    own = inspect.signature(command, eval_str=True)
    options = dict(inspect.signature(_reading, eval_str=True).parameters)
    del options["min_profile_length"]

    @wraps(command)
    def run(**given: Any) -> None:
        reading = {name: given.pop(name) for name in options}
        path = given.pop("histories")
        if path is None:
            for name, value in reading.items():
                if value != options[name].default:
                    option = name.replace("_", "-")
                    raise InputError(f"--{option} says how to read --histories: give that too.")
        chosen = {name: value for name, value in reading.items() if value is not None}
        if "columns" in chosen:
            chosen["columns"] = chosen["columns"].split(",")
        command(histories=None if path is None else (path, chosen), **given)

    parameters = [
        p.replace(annotation=opt.Histories) if p.name == "histories" else p
        for p in own.parameters.values()
    ]
    run.__signature__ = own.replace(  # type: ignore[attr-defined]  # what typer looks at
        parameters=[*parameters, *options.values()]
    )
    run.__annotations__ = {}
    return run
