"""The command that measures whether guarantees hold on somebody's data."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any

import typer

from surerec._progress import time_stages
from surerec.cli import _options as opt
from surerec.cli import _show
from surerec.cli._output import messages, stdout
from surerec.cli._reading import Reader, reads_data
from surerec.errors import InputError
from surerec.interactions import read_user_groups
from surerec.measures import as_recipe
from surerec.precedence import count_precedence
from surerec.recommenders import Recommender, load_all
from surerec.reports import require_plots

if TYPE_CHECKING:
    from surerec.interactions import IdMap, UserGroups
    from surerec.precedence import PrecedenceStatistics


@reads_data
def audit_data(
    data: Reader,
    *,
    measure: Annotated[
        str | None,
        typer.Option(help="Which of `surerec measures`; CM12 if not given. Not for model folders."),
    ] = None,
    recommender: Annotated[
        str | None,
        typer.Option(help="Which of a model folder's recommenders; all if not given."),
    ] = None,
    users: Annotated[int, typer.Option(help="How many users to look at, at most.")] = 1000,
    window: Annotated[
        float | None,
        typer.Option(help="Days in a window of the calendar; chosen by the data if not given."),
    ] = None,
    as_of: Annotated[
        bool,
        typer.Option(
            "--as-of",
            help="Measure promises over users also with counts up to the start of each user's "
            "block of the calendar (at most 12), not of what others did later.",
        ),
    ] = False,
    segments: Annotated[
        str | None,
        typer.Option(
            help="Report nominal and observed for each segment of this column, such as country."
        ),
    ] = None,
    segments_file: Annotated[
        Path | None,
        typer.Option(help="A table of users with that column; DATA itself if not given."),
    ] = None,
    seed: Annotated[int, typer.Option(help="Of everything that is drawn.")] = 0,
    output: Annotated[
        Path | None, typer.Option(help="A folder for report.html, the figure and the tables.")
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the audit that the folder holds.")
    ] = False,
    ties: opt.Ties = "order",
) -> None:
    """Measure whether guarantees hold here: in time order, over users, over the calendar.

    DATA may also be a model folder, whose recommenders are then audited on its own profiles.

    [bold]Examples:[/bold]

    surerec audit ml-1m

    surerec audit ratings.csv --measure CM3 --users 500 --output audit

    surerec audit films --recommender icrs12

    surerec audit orders.csv --segments country
    """
    if segments_file is not None and segments is None:
        raise InputError("--segments-file needs the name of its column: add --segments country.")
    is_model = (Path(data.source) / "manifest.json").is_file()
    audited: dict[str, PrecedenceStatistics | Recommender]
    by: Any = segments
    if is_model:
        if measure is not None:
            raise InputError("--measure is for data; a model folder's recommenders have their own.")
        audited = dict(_chosen(data.source, recommender))
    else:
        if recommender is not None:
            source = opt.source_name(data.source)
            raise InputError(f"--recommender is for model folders, and {source} is none.")
        name = as_recipe(measure or "CM12").name
        interactions = data()
        if segments is not None and segments_file is None:
            by = _segments_of(data, segments, interactions.users)
        audited = {name: count_precedence(interactions, ties=ties)}
    settings = {
        "n_users": users,
        "window": window,
        "as_of": as_of,
        "segments": by,
        "user_segments": segments_file,
        "seed": seed,
    }
    if not is_model:
        settings["measure"] = name
    _run(audited, output, settings, overwrite=overwrite)


def _segments_of(data: Reader, column: str, users: IdMap) -> UserGroups:
    """Read the segments of users from the column of the data themselves."""
    if not Path(data.source).exists():
        raise InputError(
            f"--segments {column}: {opt.source_name(data.source)} is no file with such a column; "
            "name one with --segments-file."
        )
    given = opt.chosen(data.options)
    reading = {name: given[name] for name in ("user", "columns") if name in given}
    return read_user_groups(Path(data.source), column, users, **reading)


def _chosen(folder: str, recommender: str | None) -> dict[str, Recommender]:
    models = load_all(folder)
    if recommender is None:
        return models
    if recommender not in models:
        raise InputError(f"{folder}: no recommender {recommender!r}; it has {', '.join(models)}.")
    return {recommender: models[recommender]}


def _run(
    audited: dict[str, Any], output: Path | None, settings: dict[str, Any], *, overwrite: bool
) -> None:
    from surerec.audit import audit, check_target  # noqa: PLC0415  # only this command needs scipy's tests
    from surerec.cli._show_audit import show_audit  # noqa: PLC0415

    targets = {
        name: output if output is None or len(audited) == 1 else output / name for name in audited
    }
    if output is not None:
        require_plots()  # before minutes of work
        for target in targets.values():
            check_target(target or output, overwrite=overwrite)
    for name, data in audited.items():
        with time_stages() as spent:
            found = audit(data, name=name, **settings)
        show_audit(stdout(), found)
        target = targets[name]
        if target is not None:
            found.write(target, overwrite=overwrite)
            messages().print(f"Wrote {_show.plain(str(target / 'report.html'))}")
        messages().print(f"Audited {_show.plain(name)} in {spent}.")
