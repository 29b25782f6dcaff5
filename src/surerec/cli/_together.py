"""Groups of people who choose together on the command line."""

from __future__ import annotations

from pathlib import Path  # noqa: TC003  # typer reads it at run time
from typing import TYPE_CHECKING, Annotated, Any, Literal

import typer

from surerec._columns import Columns
from surerec._shown import counted
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import (
    about_output,
    messages,
    write_frame,
    write_json,
)
from surerec.cli._over_users import choose_over_users
from surerec.errors import InputError
from surerec.recommenders import save_all

if TYPE_CHECKING:
    from rich.console import Console

    from surerec.recommenders import GroupSet, Recommender


def calibrate_groups(
    model: opt.Model,
    *,
    size: Annotated[
        list[int] | None,
        typer.Option(help="How many members, 2 to 8; may be repeated; 2, 3 and 4 if not given."),
    ] = None,
    formed: Annotated[
        Literal["random", "similar"],
        typer.Option(help="As the groups to be served will be: anybody, or people who are alike."),
    ] = "random",
    aggregation: Annotated[
        str,
        typer.Option(
            help="How one ranking is made of the members': average, least-misery, most-pleasure, "
            "approval, joint-profile."
        ),
    ] = "average",
    group_file: Annotated[
        Path | None,
        typer.Option(help="Groups of your own instead: a table with columns user_id and group."),
    ] = None,
    recommender: Annotated[
        str | None,
        typer.Option(help="For which of the folder's recommenders; all over users if not given."),
    ] = None,
) -> None:
    """Calibrate a model on groups of its users, so that groups can be promised something.

    A size that was not calibrated is calibrated when a group of it is asked for, each time anew on
    the command line; the server answers only for sizes that are in the folder.

    [bold]Examples:[/bold]

    surerec calibrate-groups films --size 2 --size 3

    surerec calibrate-groups films --size 2 --formed similar --aggregation least-misery
    """
    every, chosen = choose_over_users(model, recommender)
    for fitted in chosen.values():
        fitted.calibrate_groups(
            size or (2, 3, 4), formed=formed, aggregation=aggregation, groups=group_file
        )
    save_all(model, every)
    for name, fitted in chosen.items():
        told = ", ".join(
            f"{len(each.outcomes):,} {each.people}" for each in fitted.group_calibrations_
        )
        messages().print(f"Calibrated {_show.plain(name)} on {_show.plain(told)}.")


def is_group(users: list[str] | None, together: str | None) -> bool:
    """Tell whether several people are asked for: several users, or something promised to them."""
    return together is not None or len(users or ()) > 1


def one_of(users: list[str] | None) -> str | None:
    """Give the one user who is asked for, if there is any."""
    return users[0] if users else None


def members(
    fitted: Recommender,
    users: list[str] | None,
    histories: list[str] | None,
    times: list[str] | None = None,
) -> list[str | list[Any]]:
    """Return the members of a group: every user, and a new user for every history.

    Every --times is of the --history at the same place.
    """
    taken: list[list[Any]] = [opt.as_items(fitted, [text]) or [] for text in histories or ()]
    if times is None:
        return [*(users or ()), *taken]
    if len(times) != len(taken):
        raise InputError(
            f"There are {len(taken)} --history and {len(times)} --times: in a group, pass one "
            "--times for each --history."
        )
    return [*(users or ()), *map(_timed, taken, times)]


def _timed(items: list[Any], times: str) -> list[tuple[Any, str]]:
    when = opt.as_times([times]) or []
    if len(when) != len(items):
        raise InputError(
            f"--times {times} has {len(when)} values for a history of {len(items)} items: pass one "
            "time for each item."
        )
    return list(zip(items, when, strict=True))


def satisfaction(console: Console, picks: GroupSet) -> None:
    """Print how well each member is served."""
    if not len(picks):
        return
    told = ", ".join(
        f"{name} {share:.0%}" for name, share in zip(picks.members, picks.satisfaction, strict=True)
    )
    console.print(
        f"[bold]Of everybody's own best {len(picks):,} items[/bold]: {_show.plain(told)}; least "
        f"served is {_show.plain(str(picks.least_served))}.",
        highlight=False,
    )


def recommend_file(
    fitted: Recommender, path: Path, kind: str, output: Path | None, **asked: Any
) -> None:
    """Recommend to all groups of a file."""
    frame = fitted.recommend_groups(path, **asked)
    together = asked.pop("together")
    said = fitted.guarantee_to_groups(path, fitted.options(**asked), together)
    if kind == "json":
        answer = {"recommender": fitted.name_, "guarantee": said.to_dict()}
        write_json({**answer, "items": frame.to_dicts()}, output)
        return
    about = about_output(fitted.name_, said)
    write_frame(frame, "csv" if kind == "table" else kind, output, about)
    n_groups = frame["group"].n_unique()
    covered = frame.filter(Columns.Covered)["group"].n_unique()
    messages().print(
        f"Answered {counted(n_groups, 'groups')} by {_show.plain(fitted.name_)}. The guarantee "
        f"covers {covered:,} of these {n_groups:,}; the column {Columns.Covered} says which."
    )
    messages().print(_show.plain(said.labelled))
