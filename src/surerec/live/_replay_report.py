"""What a replay shows: tables, a figure, and a folder that holds them."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import numpy as np
import polars as pl

from surerec._calendar import day_of
from surerec._files import check_utf8, folder_aside
from surerec.conformal import DEFAULT_FALSE_ALARMS, Watch
from surerec.errors import InputError
from surerec.live._ledger import WINDOW
from surerec.live._replay import MODELS
from surerec.reports import Heading, Paragraph, Picture, Table, require_plots, to_markdown

if TYPE_CHECKING:
    from pathlib import Path

    from matplotlib.axes import Axes
    from numpy.typing import NDArray

    from surerec.live._replay import Replayed
    from surerec.reports import Block

_FILES: Final = ("replay.md", "summary.csv", "windows.csv")


def windows_of(played: Replayed, length: int = WINDOW) -> pl.DataFrame:
    """Give promised and delivered in windows of so many judged events.

    Returns
    -------
    polars.DataFrame
        ``window``, ``from``, ``until``, ``n``, ``epsilon``, ``model``, ``outside`` (the share of
        what was taken that was outside, with each user and day counted once), ``outside_events``
        (with each event counted once), ``size`` (the mean), ``all_or_nothing`` (the share of sets
        that were); the last window may be shorter.
    """
    rows, weights = [], played.weights
    for number, first in enumerate(range(0, len(played.times), length)):
        some = slice(first, first + length)
        times = played.times[some]
        for place, epsilon in enumerate(sorted(played.playing.epsilons)):
            rows += [
                {
                    "window": number,
                    "from": day_of(int(times[0])),
                    "until": day_of(int(times[-1])),
                    "n": len(times),
                    "epsilon": epsilon,
                    "model": model,
                    "outside": float(
                        np.average(played.outside[m, some, place], weights=weights[some])
                    ),
                    "outside_events": float(played.outside[m, some, place].mean()),
                    "size": float(played.sizes[m, some, place].mean()),
                    "all_or_nothing": float(played.all_or_nothing[m, some, place].mean()),
                }
                for m, model in enumerate(MODELS)
            ]
    return pl.DataFrame(rows)


def summary_of(played: Replayed, length: int = WINDOW) -> pl.DataFrame:
    """Give promised and delivered over the whole stream, for each ε and model.

    Returns
    -------
    polars.DataFrame
        ``epsilon``, ``model``, ``outside`` (with each user and day counted once),
        ``outside_events`` (with each event counted once), ``worst_window`` (how far ``outside`` was
        from ε in the worst of all windows, wherever they begin; null if there is none), ``size``,
        ``size_ratio`` (to the recalibrated model's), ``all_or_nothing``, ``first_alarm`` (the day
        on which errors were first alarming, null if never; steered errors are not watched), ``n``
        and ``n_user_days``.
    """
    rows, weights = [], played.weights
    for place, epsilon in enumerate(sorted(played.playing.epsilons)):
        sizes = played.sizes[:, :, place].mean(axis=1)
        for m, model in enumerate(MODELS):
            outside = played.outside[m, :, place]
            rows.append(
                {
                    "epsilon": epsilon,
                    "model": model,
                    "outside": float(np.average(outside, weights=weights)),
                    "outside_events": float(outside.mean()),
                    "worst_window": _worst_window(outside, weights, epsilon, length),
                    "size": float(sizes[m]),
                    "size_ratio": float(sizes[m] / max(sizes[MODELS.index("recalibrated")], 1e-9)),
                    "all_or_nothing": float(played.all_or_nothing[m, :, place].mean()),
                    "first_alarm": None if model == "live" else _first_alarm(played, m, place),
                    "n": len(played.times),
                    "n_user_days": round(weights.sum()),
                }
            )
    return pl.DataFrame(rows, schema_overrides={"first_alarm": pl.String})


def _worst_window(
    outside: NDArray[np.bool_], weights: NDArray[np.float64], epsilon: float, length: int
) -> float | None:
    """Give how far from ε the share outside was in the worst of all windows of some length."""
    if len(outside) < length:
        return None
    missed, all_of_it = (
        np.concatenate(([0.0], np.cumsum(each))) for each in (outside * weights, weights)
    )
    shares = (missed[length:] - missed[:-length]) / (all_of_it[length:] - all_of_it[:-length])
    return float(np.abs(shares - epsilon).max())


def _first_alarm(played: Replayed, model: int, place: int) -> str | None:
    """Give the day of the first alarm on the errors of a model that is not steered."""
    epsilon, n = sorted(played.playing.epsilons)[place], len(played.playing.epsilons)
    watch: Watch | None = None
    usual: tuple[int, ...] = ()
    for at in np.flatnonzero(played.watched).tolist():
        now = tuple(played.usual[model, at, place].tolist())
        if now != usual:  # it was calibrated anew
            usual = now
            share = DEFAULT_FALSE_ALARMS / n
            fresh = Watch.start(epsilon, false_alarms=share, usual=(now[0], now[1]))
            watch = fresh if watch is None else watch.expecting(fresh)
        assert watch is not None  # noqa: S101  # something is usual from the first event on
        time = int(played.times[at])
        watch, alarm = watch.after(error=bool(played.outside[model, at, place]), time=time)
        if alarm is not None:
            return day_of(time)
    return None


def check_replay_target(folder: Path) -> None:
    """Refuse a folder that holds something else than a replay; before minutes of work."""
    check_utf8(folder)
    if folder.exists() and not folder.is_dir():
        raise InputError(f"{folder}: is a file; name a folder.")
    names = {each.name for each in folder.iterdir()} if folder.exists() else set()
    if names and not names >= set(_FILES):
        raise InputError(f"{folder}: holds something else than a replay; name another folder.")


def write_replay(played: Replayed, folder: Path) -> None:
    """Write tables, the figure and a page of Markdown; the folder appears when it is complete."""
    check_replay_target(folder)
    figure = draw_replay(played)
    with folder_aside(folder) as aside:
        windows_of(played).write_csv(aside / "windows.csv")
        summary_of(played).write_csv(aside / "summary.csv")
        (aside / "figures").mkdir()
        for kind, content in figure.items():
            (aside / "figures" / f"replay.{kind}").write_bytes(content)
        (aside / "replay.md").write_text(to_markdown(f"Replay: {played.name}", _blocks(played)))


def _blocks(played: Replayed) -> list[Block]:
    how = played.playing
    passed = ", ".join(f"{n:,} ({reason})" for reason, n in played.not_judged.items())
    return [
        Paragraph(
            f"{len(played.times):,} events from {day_of(int(played.times[0]))} to "
            f"{day_of(int(played.times[-1]))} were judged; not judged: {passed}. Counts were "
            f"renewed every {how.renew:g} days, and calibrated on the events of {how.window:g} "
            f"days; cuts were steered by γ = {how.step:g}. Each user and day counts once."
        ),
        Picture("replay", "Promised and delivered, window by window.", "Lines over the stream."),
        Heading("Over the whole stream"),
        Table(
            "Shares of items new to the user outside of the sets, and how large these were.",
            (
                "ε",
                "model",
                "outside",
                "of all events",
                "worst window",
                "size",
                "of recalibrated",
                "all or nothing",
                "first alarm",
            ),
            tuple(_row(row) for row in summary_of(played).to_dicts()),
            words=frozenset({0, 1, 8}),
        ),
    ]


def _row(row: dict[str, Any]) -> tuple[str, ...]:
    worst = "–" if row["worst_window"] is None else f"{row['worst_window']:.4f}"
    return (
        f"{row['epsilon']:g}",
        row["model"],
        f"{row['outside']:.4f}",
        f"{row['outside_events']:.4f}",
        worst,
        f"{row['size']:.1f}",
        f"{row['size_ratio']:.3f}",
        f"{row['all_or_nothing']:.2%}",
        row["first_alarm"] or "–",
    )


def draw_replay(played: Replayed) -> dict[str, bytes]:
    """Give the figure in every format: what was outside, window by window, a panel for each ε."""
    require_plots()
    from surerec.reports.figures import panels, plain, render, styled  # noqa: PLC0415  # an extra

    windows, epsilons = windows_of(played), sorted(played.playing.epsilons)
    with styled():
        figure, all_axes = panels(1, len(epsilons), (3.6 * len(epsilons), 3.9))
        figure.suptitle(
            plain(f"{played.name}: promised and delivered, of items new to the user", 100),
            fontsize=12,
        )
        for number, (axes, epsilon) in enumerate(zip(all_axes, epsilons, strict=True)):
            _panel(axes, windows.filter(epsilon=epsilon), epsilon)
            if not number:
                axes.set_ylabel("share outside, by users' days")
        handles = figure.axes[0].get_legend_handles_labels()
        figure.legend(*handles, loc="outside lower center", ncols=len(MODELS) + 1)
        return render(figure)


def _panel(axes: Axes, windows: pl.DataFrame, epsilon: float) -> None:
    from surerec.reports.figures import LINES, Line  # noqa: PLC0415  # an extra

    looks = {"static": Line("#D55E00", "-", "P"), "recalibrated": LINES[1], "live": LINES[0]}
    promised = {"color": "#7f7f7f", "linestyle": (0, (1, 1)), "linewidth": 1.2, "zorder": 1}
    axes.axhline(epsilon, label="promised", **promised)  # type: ignore[arg-type]
    for model in MODELS:
        mine = windows.filter(model=model)
        axes.plot(mine["window"], mine["outside"], label=model, **looks[model].thin())
    days = windows.filter(model="live")["from"].to_list()
    step = max(1, len(days) // 4)
    axes.set_xticks(range(0, len(days), step), days[::step], rotation=30, ha="right")
    axes.set_ylim(bottom=0, top=max(2.2 * epsilon, 1.08 * float(windows["outside"].max() or 0)))  # type: ignore[arg-type]
    axes.set_title(f"ε = {epsilon:g}")
