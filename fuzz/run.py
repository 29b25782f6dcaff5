"""Run the fuzzers: ``python -m fuzz.run --files 20000 --random-state 1``. See README.md."""

from __future__ import annotations

import sys
from argparse import ArgumentParser, Namespace
from importlib import import_module
from time import perf_counter
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from fuzz.tally import Tally

KINDS: Final = {
    "files": 2000,
    "commands": 500,
    "folders": 200,
    "requests": 1000,
    "kills": 12,
}
"""The modules with ``run(n, random_state)``, and their default numbers of inputs."""


def main() -> int:
    """Run every fuzzer and print the outcomes; return 1 if anything failed."""
    settings = _settings()
    failed = False
    for kind in KINDS:
        n = getattr(settings, kind)
        if not n:
            continue
        start = perf_counter()
        tally: Tally = import_module(f"fuzz.{kind}").run(n, settings.random_state)
        _show(tally, perf_counter() - start)
        failed |= bool(tally.failures)
    return int(failed)


def _show(tally: Tally, seconds: float) -> None:
    print(
        f"{tally.kind}: {tally.tried:,} tried in {seconds:.0f} s: {tally.answered:,} answered, "
        f"{tally.refused:,} errors in one sentence, {tally.failures.total():,} failed",
        flush=True,
    )
    for note, count in tally.notes.most_common():
        print(f"  {note}: {count:,}")
    for signature, count in tally.failures.most_common():
        print(f"  FAILED {signature}: {count:,}, such as {tally.examples[signature]}")


def _settings() -> Namespace:
    parser = ArgumentParser(prog="python -m fuzz.run", description=__doc__)
    for kind, n in KINDS.items():
        parser.add_argument(f"--{kind}", type=int, default=n, help=f"number (default {n})")
    parser.add_argument("--random-state", type=int, default=1, help="seed of the inputs")
    parser.add_argument("--only", choices=KINDS, help="run only this kind")
    settings = parser.parse_args()
    for kind in KINDS:
        if settings.only not in {None, kind}:
            setattr(settings, kind, 0)
    return settings


if __name__ == "__main__":
    sys.exit(main())
