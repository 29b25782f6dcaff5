"""Damaged and forged model folders: they raise an error, or answer.

Each folder is loaded in a child process, with and without verification, and queried. A crash is a
failure; so is a wrong answer of a verified folder that is not forged.
"""

from __future__ import annotations

import json
import random
import shutil
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

from fuzz.children import Child
from fuzz.damage import damage
from fuzz.forging import forge
from fuzz.tally import Tally

_SECONDS: Final = 60.0
_WARM_UP: Final = 600.0
_MEGABYTES: Final = 2500  # beyond what the child uses after its start
_SHARE_FORGED: Final = 0.5


def run(n: int, random_state: int) -> Tally:
    """Load `n` damaged or forged folders, with and without verification."""
    from fuzz import models  # noqa: PLC0415  # slow to import

    tally = Tally("folders")
    with TemporaryDirectory() as name, Child("fuzz.answers", _MEGABYTES) as child:
        place = Path(name)
        originals = models.save(place / "whole")
        # The first queries compile kernels, which can take minutes.
        expected = {
            folder.name: _ask(child, folder, verify=True, seconds=_WARM_UP) for folder in originals
        }
        for folder, reply in expected.items():
            if "answers" not in reply:
                tally.fail(f"an undamaged folder: {_signature(reply)}", folder)
        for number in range(n):
            _try(tally, child, originals, expected, place / "tried", (random_state, number))
    return tally


def _try(
    tally: Tally,
    child: Child,
    originals: list[Path],
    expected: dict[str, Any],
    folder: Path,
    seed: tuple[int, int],
) -> None:
    rng = random.Random(repr(seed))
    original = rng.choice(originals)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    forged = rng.random() < _SHARE_FORGED
    what = forge(folder, rng) if forged else damage(folder, rng)
    example = f"random_state {seed[0]}, folder {seed[1]} ({original.name}): {what}"
    for verify in (True, False):
        how = f"{example}, {'verified' if verify else 'not verified'}"
        reply = _ask(child, folder, verify=verify)
        if "refused" in reply:
            tally.refused += 1
            for sentence in reply["refused"]:
                if "\n" in sentence.strip():
                    tally.fail("an error of several lines", f"{how}: {sentence}")
            continue
        if "answers" not in reply:
            tally.fail(_signature(reply), how)
            continue
        same = reply["answers"] == expected[original.name].get("answers")
        if not same and verify and not forged:
            tally.fail("a wrong answer of a verified folder", how)
            continue
        tally.answered += 1
        if not same:
            kind = "forged" if forged else "not verified"
            tally.notes[f"other answers than the undamaged folder, {kind}"] += 1


def _ask(child: Child, folder: Path, *, verify: bool, seconds: float = _SECONDS) -> dict[str, Any]:
    reply: dict[str, Any] = child.ask({"folder": str(folder), "verify": verify}, seconds)
    return reply


def _signature(reply: dict[str, Any]) -> str:
    return str(reply.get("failed") or json.dumps(reply)[:200])
