"""Damage to a model folder, as disks and careless people do it."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from pathlib import Path


def damage(folder: Path, chance: random.Random) -> str:
    """Damage a folder in one way, mostly by flipped bits; say how."""
    ways = [_flip] * 6 + [_overwrite, _truncate, _grow, _swap, _remove, _add, _link]
    files = sorted(folder.iterdir())
    return chance.choice(ways)(folder, files, chance)


def _flip(_: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    content, n = bytearray(path.read_bytes()), chance.choice((1, 1, 1, 8))
    # Headers are short and say much, so that they get half of all flips.
    end = min(len(content), 256) if chance.random() < 0.5 else len(content)
    places = [(chance.randrange(end), chance.randrange(8)) for _ in range(n)]
    for place, bit in places:
        content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bits {places} of {path.name} flipped"


def _overwrite(_: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    content = bytearray(path.read_bytes())
    start = chance.randrange(len(content))
    stop = min(start + chance.choice((4, 8, 512)), len(content))
    content[start:stop] = bytes([chance.choice((0, 255, 127))]) * (stop - start)
    path.write_bytes(content)
    return f"bytes {start} to {stop} of {path.name} overwritten"


def _truncate(_: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    size = chance.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"{path.name} cut at {size}"


def _grow(_: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    with path.open("ab") as file:
        file.write(bytes(chance.randrange(1, 100)))
    return f"{path.name} grown"


def _swap(_: Path, files: list[Path], chance: random.Random) -> str:
    one, other = chance.sample(files, 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{one.name} and {other.name} swapped"


def _remove(_: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    path.unlink()
    return f"{path.name} removed"


def _add(folder: Path, files: list[Path], chance: random.Random) -> str:
    name = chance.choice(("notes.txt", "array-0123456789abcdef.npy", "manifest.json.part", "x"))
    shutil.copy(chance.choice(files), folder / name)
    return f"{name} added"


def _link(folder: Path, files: list[Path], chance: random.Random) -> str:
    path = chance.choice(files)
    target = chance.choice(("/dev/zero", "/dev/null", "/etc/hostname", "gone", str(folder)))
    path.unlink()
    path.symlink_to(target)
    return f"{path.name} linked to {target}"
