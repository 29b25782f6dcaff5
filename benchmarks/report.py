"""The printed table, and all results as JSON."""

from __future__ import annotations

import os
import platform
from collections import Counter
from datetime import UTC, datetime
from importlib.metadata import PackageNotFoundError, version
from itertools import groupby
from pathlib import Path
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.table import Table

if TYPE_CHECKING:
    from benchmarks.lines import Line

_PACKAGES = (
    "surerec", "numpy", "numba", "scipy", "polars", "implicit", "duckdb", "crepes", "ir-measures",
)  # fmt: skip
_STYLES = {"met": "green", "NOT MET": "bold red"}


def show(lines: list[Line], checks: dict[str, bool | None]) -> None:
    """Print the table and the comparisons."""
    screen = Console()
    console = screen if screen.is_terminal else Console(width=170)
    table = Table("", "surerec", "peer", "ratio", "bar", "")
    for group, members in groupby(lines, key=lambda line: line.group):
        table.add_section()
        table.add_row(f"[bold]{group}[/bold]")
        for line in members:
            verdict, style = line.verdict, _STYLES.get(line.verdict, "dim")
            shown = f"[{style}]{verdict}[/{style}]"
            table.add_row(f"  {line.what}", line.ours, line.peer, line.ratio_text, line.bar, shown)
    console.print(table)
    equal = sum(same is True for same in checks.values())
    one_sided = sum(same is None for same in checks.values())
    console.print(f"Results compared: {equal} equal; {one_sided} where one side did not finish.")
    for name, same in checks.items():
        if same is False:
            console.print(f"[bold red]NOT EQUAL: {name}")
    verdicts = Counter(line.verdict for line in lines if line.bar)
    if verdicts:
        console.print(
            ", ".join(f"{number} {verdict}" for verdict, number in verdicts.items()) + "."
        )


def machine() -> dict[str, Any]:
    """Describe the machine."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return {
        "processor": _processor(),
        "cores": len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else None,
        "memory_bytes": memory,
        "system": platform.platform(),
        "python": platform.python_version(),
    }


def _processor() -> str:
    try:
        for line in Path("/proc/cpuinfo").read_text().splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass
    return platform.processor()


def versions() -> dict[str, str | None]:
    """Return the versions of all contestants; None if not installed."""
    found: dict[str, str | None] = {}
    for name in _PACKAGES:
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = None
    return found


def now() -> str:
    """Return the time, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
