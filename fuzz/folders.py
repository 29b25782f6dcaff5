"""Model folders, damaged and forged: they are refused in a sentence, or answer.

Each folder is opened in a child process, verified and not, and asked. A child that dies is a
failure; so is a wrong answer of a folder that was verified and not forged.
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
_MEGABYTES: Final = 2500  # beyond what the child has mapped and compiled; a bomb asks for more
_SHARE_FORGED: Final = 0.5


def run(n: int, random_state: int) -> Tally:
    """Open `n` damaged or forged folders of every kind of recommender, verified and not."""
    from fuzz import models  # noqa: PLC0415  # numba takes seconds, and `--help` none

    tally = Tally("folders")
    with TemporaryDirectory() as name, Child("fuzz.asking", _MEGABYTES) as child:
        place = Path(name)
        originals = models.save(place / "whole")
        # The first to be asked compile kernels, on a busy machine for minutes.
        truth = {
            folder.name: _ask(child, folder, verify=True, seconds=_WARM_UP) for folder in originals
        }
        for folder, told in truth.items():
            if "answers" not in told:
                tally.fail(f"a whole folder: {_signature(told)}", folder)
        for number in range(n):
            _try(tally, child, originals, truth, place / "tried", (random_state, number))
    return tally


def _try(
    tally: Tally,
    child: Child,
    originals: list[Path],
    truth: dict[str, Any],
    folder: Path,
    chance_of: tuple[int, int],
) -> None:
    chance = random.Random(repr(chance_of))
    original = chance.choice(originals)
    shutil.rmtree(folder, ignore_errors=True)
    shutil.copytree(original, folder)
    forged = chance.random() < _SHARE_FORGED
    what = forge(folder, chance) if forged else damage(folder, chance)
    example = f"seed {chance_of[0]}, folder {chance_of[1]} ({original.name}): {what}"
    for verify in (True, False):
        how = f"{example}, {'verified' if verify else 'not verified'}"
        told = _ask(child, folder, verify=verify)
        if "refused" in told:
            tally.refused += 1
            for sentence in told["refused"]:
                if "\n" in sentence.strip():
                    tally.fail("a refusal of several lines", f"{how}: {sentence}")
            continue
        if "answers" not in told:
            tally.fail(_signature(told), how)
            continue
        right = told["answers"] == truth[original.name].get("answers")
        if not right and verify and not forged:
            tally.fail("a wrong answer though it was verified", how)
            continue
        tally.answered += 1
        if not right:
            how_known = "forged" if forged else "not verified"
            tally.notes[f"answers other than the whole folder's, {how_known}"] += 1


def _ask(child: Child, folder: Path, *, verify: bool, seconds: float = _SECONDS) -> dict[str, Any]:
    told: dict[str, Any] = child.ask({"folder": str(folder), "verify": verify}, seconds)
    return told


def _signature(told: dict[str, Any]) -> str:
    return str(told.get("failed") or json.dumps(told)[:200])
