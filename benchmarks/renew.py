"""Measured numbers: ``docs/results/results.json`` has them, and the pages show them.

``python -m benchmarks.renew [NAME …] [--full]`` (``make results``) runs the commands that took at
most three minutes, those of the named claims, or all of them. It takes the numbers out of what they
print, and writes them into the file and the pages. A page shows a number before a marker such as
``<!--hits/movielens-1m-0.2/items-->``, and a table between ``<!--table hits-->`` and
``<!--end-->``. Forges and the site hide the markers, so that pages are read as they are.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import time
from datetime import UTC, datetime
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from surerec._files import file_aside

if TYPE_CHECKING:
    from collections.abc import Iterator

ROOT: Final = Path(__file__).parents[1]
FILE: Final = ROOT / "docs" / "results" / "results.json"
MARKED: Final = re.compile(r"([\d.,]+%?|\?)<!--([\w./-]+?)(?::([^-\s]+))?-->")
TABLE: Final = re.compile(r"<!--table ([\w-]+)-->.*?<!--end-->", re.DOTALL)
QUICK: Final = 180
"""Most seconds of a command that is run by default."""
_NUMBER: Final = r"(-?\d+(?:,\d{3})*(?:\.\d+)?)"


def load() -> dict[str, Any]:
    """Return the claims by name."""
    found: dict[str, Any] = json.loads(FILE.read_text(encoding="utf-8"))
    return found


def save(claims: dict[str, Any]) -> None:
    """Write the file in one step, with a line for each row."""
    text = json.dumps(claims, indent=1, ensure_ascii=False)
    text = re.sub(r"\[\s+([^][{}]*?)\s+\]", lambda m: f"[{' '.join(m[1].split())}]", text)
    with file_aside(FILE) as aside:
        aside.write_text(text + "\n", encoding="utf-8")


def pages() -> list[Path]:
    """Return the pages that show numbers: README.md and all of ``docs``."""
    return [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md"))]


def rows_of(claim: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """Return the rows of all commands of a claim: what to take, and the values."""
    return {label: row for each in claim["measured"] for label, row in each["rows"].items()}


def slug(label: str) -> str:
    """Return a label as it stands in a marker."""
    return re.sub(r"[^\w.]+", "-", label.lower()).strip("-")


def shown(claims: dict[str, Any], address: str, form: str | None = None) -> str:
    """Return the number at ``claim/row/column``, in the form of its column or another."""
    name, row_name, column_name = address.split("/")
    claim = claims.get(name, {"measured": [], "columns": {}})
    rows = [row for label, row in rows_of(claim).items() if slug(label) == row_name]
    places = [n for n, column in enumerate(claim["columns"]) if slug(column) == column_name]
    if len(rows) != 1 or len(places) != 1:
        raise LookupError(f"{address} is not one number of {FILE.name}")
    return format(rows[0]["values"][places[0]], form or [*claim["columns"].values()][places[0]])


def table(claim: dict[str, Any]) -> str:
    """Return a claim's numbers as a table."""
    head = [claim["rows_are"], *claim["columns"]]
    lines = [head, ["---"] * len(head)]
    for label, row in rows_of(claim).items():
        forms = zip(row["values"], claim["columns"].values(), strict=True)
        lines.append([label, *("" if value is None else format(value, f) for value, f in forms)])
    return "\n".join(f"|{'|'.join(line)}|" for line in lines)


def rewritten(text: str, claims: dict[str, Any]) -> str:
    """Return a page with the numbers and tables of the file."""
    text = MARKED.sub(lambda m: shown(claims, m[2], m[3]) + m[0][len(m[1]) :], text)
    return TABLE.sub(lambda m: f"<!--table {m[1]}-->\n\n{table(claims[m[1]])}\n\n<!--end-->", text)


def taken(pattern: str, output: str) -> list[float]:
    """Return the numbers at ``#`` in an output; ``…`` stands for any text, a space for any space.

    Examples
    --------
    >>> taken("CM12 | # | … items: #", "| CM12 |  0.102 | of 5 items: 1,312 |")
    [0.102, 1312]
    """
    parts = re.escape(pattern).replace(r"\#", _NUMBER).replace("…", ".*?")
    found = re.search(re.sub(r"(\\ )+", r"\\s+", parts), output, re.DOTALL)
    if found is None:
        raise LookupError(f"not printed: {pattern}")
    return [json.loads(f"{float(number.replace(',', '')):.7g}") for number in found.groups()]


@cache
def printed(command: str) -> tuple[str, int]:
    """Run a command; return what it prints, and the seconds it takes."""
    begin = time.perf_counter()
    environment = {**os.environ, "PATH": f"{Path(sys.executable).parent}:{os.environ['PATH']}"}
    done = subprocess.run(  # noqa: S602  # the commands are ours
        command, shell=True, cwd=ROOT, env=environment, check=True, stdout=subprocess.PIPE
    )
    return done.stdout.decode(), round(time.perf_counter() - begin)


def measure(measured: dict[str, Any]) -> None:
    """Run a command, and take its numbers."""
    output, seconds = printed(measured["command"])
    found = {label: taken(row["take"], output) for label, row in measured["rows"].items()}
    for label, values in found.items():
        measured["rows"][label]["values"] = values
    measured |= {"date": datetime.now(UTC).date().isoformat(), "seconds": seconds}


def chosen(claims: dict[str, Any], names: list[str], *, full: bool) -> Iterator[dict[str, Any]]:
    """Yield the measurements to run; without ``take``, a row is written by hand.

    Timings need a quiet machine, and commands without a duration have not been timed: both are run
    if they are named, or with ``--full``.
    """
    for name, claim in claims.items():
        for each in claim["measured"]:
            quick = "timing" not in claim and (each["seconds"] or QUICK + 1) <= QUICK
            wanted = name in names if names else full or quick
            if wanted and all("take" in row for row in each["rows"].values()):
                yield each
            elif wanted:
                print(f"By hand: {each['command']}")


def main() -> int:
    """Renew the file and the pages; return 1 if a command failed."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("names", nargs="*", help="claims; by default those that are quick")
    parser.add_argument("--full", action="store_true", help="also what takes long")
    parser.add_argument("--pages", action="store_true", help="write the pages only")
    given = parser.parse_args()
    claims, failed = load(), 0
    if unknown := ", ".join(set(given.names) - set(claims)):
        parser.error(f"no claim is called {unknown}; there are {', '.join(claims)}")
    todo = [] if given.pages else list(chosen(claims, given.names, full=given.full))
    for number, each in enumerate(todo, start=1):
        print(f"[{number}/{len(todo)}, {each['seconds']} s] {each['command']}", flush=True)
        try:
            measure(each)
        except (LookupError, subprocess.CalledProcessError) as error:
            print(f"  kept: {error}")
            failed = 1
        save(claims)
    for page in pages():
        text = page.read_text(encoding="utf-8")
        if (now := rewritten(text, claims)) != text:
            page.write_text(now, encoding="utf-8")
            print(f"Written: {page.relative_to(ROOT)}")
    return failed


if __name__ == "__main__":
    sys.exit(main())
