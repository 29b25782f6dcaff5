"""Tables and sentences that commands print in a terminal."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from surerec.cli._output import plain, table
from surerec.recommenders import GroupSet

if TYPE_CHECKING:
    from collections.abc import Mapping

    from rich.console import Console

    from surerec.interactions import Interactions
    from surerec.recommenders import Explanation, RecommendationSet


_NUMBERS = {
    "p_value": "p-value",
    "entry_confidence": "Enters above",
    "probability": "Probability",
}


def interactions(console: Console, found: Interactions) -> None:
    """Print a description of interactions."""
    lengths = np.diff(found.offsets)
    times = found.times.astype("datetime64[us]").astype("datetime64[D]")
    read = found.rows_read
    reasons = {
        "bad rows": read.bad,
        "not above the rating threshold": read.below_threshold,
        "repeats": read.repeats,
        "users with short histories": read.short_profiles,
    }
    left_out = ", ".join(f"{count:,} {reason}" for reason, count in reasons.items() if count)
    of_all = f" of {read.rows:,} rows; left out: {left_out}" if left_out else ""
    reach = f"{lengths.min():,} to {lengths.max():,}, median {np.median(lengths):,.0f}"
    rows = {
        "Users": f"{found.n_users:,}",
        "Items": f"{found.n_items:,}",
        "Interactions": f"{found.n_rows:,}{of_all}",
        "History length": reach,
        "Period": f"{times.min()} to {times.max()}",
        "Repeats": read.about_repeats() if read.repeats else "",
        "Ties in time": f"{found.tie_share:.0%} of a user's items share their time",
        "Titles": "" if found.titles_read is None else plain(str(found.titles_read)),
        "Source": plain(found.origin or ""),
    }
    console.print(f"[bold]{plain(found.name or 'Interactions')}[/bold]", highlight=False)
    shown = table(("", ""), [(f"  {name} ", value) for name, value in rows.items() if value])
    shown.show_header = False
    console.print(shown)


def recommendations(console: Console, picks: RecommendationSet, n_shown: int) -> None:
    """Print a recommendation set, best items first."""
    frame = picks.to_frame()
    at = "" if picks.confidence is None else f" at confidence {picks.confidence:g}"
    if picks.precision is not None:
        at = f" at precision {picks.precision:g} with confidence {picks.confidence:g}"
    n_items = len(picks) if picks.confidence is None else picks.full_size
    console.print(
        f"[bold]{n_items:,} of {picks.n_candidates:,} items[/bold]{at}, "
        f"from {len(picks.used):,} consumed items, by {plain(picks.recommender)}"
    )
    shown = frame.head(n_shown).to_dicts()
    names = [name for name in _NUMBERS if name in frame and frame[name].is_finite().any()]
    # Titles that equal the ids are not repeated.
    titled = any(row.get("title") not in (None, row["item_id"]) for row in shown)
    rows = [
        (
            str(row["rank"]),
            plain(str(row["item_id"])),
            *(_number(row, name) for name in names),
            f"{row['score']:.4g}",
            *([plain(row["title"] or "")] if titled else []),
        )
        for row in shown
    ]
    if rows:
        numbers = [_NUMBERS[name] for name in names]
        console.print(table(["", "Item", *numbers, "Score", *["Title"] * titled], rows))
    else:
        console.print("The set is empty at this confidence.")
    if len(frame) > n_shown:
        console.print(f"… and {len(frame) - n_shown:,} more (see --show, --format)", style="dim")
    console.print(plain(picks.guarantee.labelled))
    if picks.hit_probability is not None:
        console.print(f"[bold]Hits:[/bold] {plain(_hits(picks))}")
    if picks.about_probability:
        console.print(f"[bold]Probability:[/bold] {plain(picks.about_probability)}")
    if isinstance(picks, GroupSet) and len(picks):
        shares = zip(picks.members, picks.satisfaction, strict=True)
        by_member = ", ".join(f"{name} {share:.0%}" for name, share in shares)
        console.print(
            f"[bold]Share of each member's own best {len(picks):,} items[/bold]: "
            f"{plain(by_member)}; least served: {plain(str(picks.least_served))}."
        )


def _hits(picks: RecommendationSet) -> str:
    """Return a sentence with the probabilities of hits."""
    at_least = [
        f"at least {n} with probability {probability:.1%}"
        for n, probability in enumerate(picks.hit_probabilities, start=1)
        if probability is not None
    ]
    expected = f"; {picks.expected_hits:.2f} expected" if picks.expected_hits is not None else ""
    return f"{', '.join(at_least)}{expected}. {picks.about_hit_probability}"


def _number(row: Mapping[str, Any], name: str) -> str:
    """Format a p-value with three decimals, and a probability in percent with its interval."""
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
    console.print(f"[bold]{plain(why.title)}[/bold], by {plain(why.recommender)}")
    for sentence in why.sentences(n_shown):
        console.print(f"  {plain(sentence)}")
    if len(why.to_frame()) > n_shown:
        console.print(f"  … and {len(why.to_frame()) - n_shown:,} more", style="dim")
    for sentence in (why.strongest, why.learned, why.entry):
        if sentence:
            console.print(plain(sentence))
