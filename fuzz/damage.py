"""Random damage to a model folder: flipped bits, truncated, swapped and missing files."""

from __future__ import annotations

import os
import shutil
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import random
    from pathlib import Path


def damage(folder: Path, rng: random.Random) -> str:
    """Damage a folder in one way, mostly by flipped bits, and describe it."""
    ways = [_flip] * 6 + [_overwrite, _truncate, _grow, _swap, _remove, _add, _link]
    files = sorted(folder.iterdir())
    return rng.choice(ways)(folder, files, rng)


def _flip(_: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    content, n = bytearray(path.read_bytes()), rng.choice((1, 1, 1, 8))
    # Half of all flips are in the header, which is short and matters most.
    end = min(len(content), 256) if rng.random() < 0.5 else len(content)
    places = [(rng.randrange(end), rng.randrange(8)) for _ in range(n)]
    for place, bit in places:
        content[place] ^= 1 << bit
    path.write_bytes(content)
    return f"bits {places} of {path.name} flipped"


def _overwrite(_: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    content = bytearray(path.read_bytes())
    start = rng.randrange(len(content))
    stop = min(start + rng.choice((4, 8, 512)), len(content))
    content[start:stop] = bytes([rng.choice((0, 255, 127))]) * (stop - start)
    path.write_bytes(content)
    return f"bytes {start} to {stop} of {path.name} overwritten"


def _truncate(_: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    size = rng.randrange(path.stat().st_size)
    os.truncate(path, size)
    return f"{path.name} cut at {size}"


def _grow(_: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    with path.open("ab") as file:
        file.write(bytes(rng.randrange(1, 100)))
    return f"{path.name} grown"


def _swap(_: Path, files: list[Path], rng: random.Random) -> str:
    one, other = rng.sample(files, 2)
    content = one.read_bytes()
    one.write_bytes(other.read_bytes())
    other.write_bytes(content)
    return f"{one.name} and {other.name} swapped"


def _remove(_: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    path.unlink()
    return f"{path.name} removed"


def _add(folder: Path, files: list[Path], rng: random.Random) -> str:
    name = rng.choice(("notes.txt", "array-0123456789abcdef.npy", "manifest.json.part", "x"))
    shutil.copy(rng.choice(files), folder / name)
    return f"{name} added"


def _link(folder: Path, files: list[Path], rng: random.Random) -> str:
    path = rng.choice(files)
    target = rng.choice(("/dev/zero", "/dev/null", "/etc/hostname", "gone", str(folder)))
    path.unlink()
    path.symlink_to(target)
    return f"{path.name} linked to {target}"
