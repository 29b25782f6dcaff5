"""Forged model folders: changed values with valid checksums."""

from __future__ import annotations

import hashlib
import json
from io import BytesIO
from typing import TYPE_CHECKING, Any, Final

import numpy as np

from surerec.storage import file_name

if TYPE_CHECKING:
    import random
    from pathlib import Path

_MANIFEST: Final = "manifest.json"
_VALUES: Final[tuple[Any, ...]] = (
    0, 1, -1, 2, 10**9, 2**31, 2**63 - 1, 2**63, 10**30, -(10**30), 0.5, -0.5, 1e-300, 1e300,
    True, False, None, "", "CM7", "learned", "x" * 5000, "../..", "\x00", [], [1], {}, {"own": "x"},
    {"a": {"b": 1}},
)  # fmt: skip
_NUMBERS: Final = (0, 1, -1, 2, 255, 2**15, 2**16 - 1, 2**31 - 1, 2**32 - 1, 2**63 - 1, -(2**63))


def forge(folder: Path, rng: random.Random) -> str:
    """Change a value of the manifest or of a file, fix the checksums, and describe it."""
    card = json.loads((folder / _MANIFEST).read_text())
    del card["sha256"]
    way = rng.choice((_value, _param, _array, _array, _array, _text, _bytes))
    what = way(folder, card, rng)
    seal(folder, card)
    return what


def seal(folder: Path, card: dict[str, Any]) -> None:
    """Write a manifest with its valid checksum."""
    text = json.dumps(card, indent=2)
    card = {**card, "sha256": hashlib.sha256(text.encode()).hexdigest()}
    (folder / _MANIFEST).write_text(json.dumps(card, indent=2) + "\n")


def replace_file(folder: Path, card: dict[str, Any], name: str, content: bytes) -> None:
    """Replace the content of a file, under its valid name."""
    checksum = hashlib.sha256(content).hexdigest()
    new = file_name(name.partition("-")[0], checksum)
    (folder / name).unlink()
    (folder / new).write_bytes(content)
    del card["files"][name]
    card["files"][new] = {"bytes": len(content), "sha256": checksum}
    for each in card["recommenders"].values():
        for parts in (each.get("arrays", {}), each.get("texts", {})):
            for part, file in parts.items():
                parts[part] = new if file == name else file


def _value(_: Path, card: dict[str, Any], rng: random.Random) -> str:
    """Change any value of the manifest."""
    where, inside, key = [], card, ""
    while True:
        key = rng.choice(list(inside))
        where.append(key)
        if not isinstance(inside[key], dict) or not inside[key] or rng.random() < 0.1:
            break
        inside = inside[key]
    inside[key] = rng.choice(_VALUES)
    return f"{'.'.join(where)} set to {str(inside[key])[:50]}"


def _param(_: Path, card: dict[str, Any], rng: random.Random) -> str:
    name, each = rng.choice(list(card["recommenders"].items()))
    params = each["params"]
    if not params:
        return _value(_, card, rng)
    key = rng.choice([*params, *params, "other"])
    params[key] = rng.choice(_VALUES)
    return f"{name}.{key} set to {str(params[key])[:50]}"


def _array(folder: Path, card: dict[str, Any], rng: random.Random) -> str:
    """Change numbers, the shape or the type of an array."""
    name = rng.choice([name for name in card["files"] if name.endswith(".npy")])
    role = _use(card, name)
    array = np.load(folder / name).copy()
    flat = array.reshape(-1)
    how = rng.choice(("numbers", "numbers", "numbers", "all", "shuffled", "shape", "type"))
    if how in {"numbers", "all"} and flat.size:
        value = rng.choice([*_NUMBERS, np.nan, np.inf] if array.dtype.kind == "f" else _NUMBERS)
        places = slice(None) if how == "all" else [rng.randrange(flat.size) for _ in range(3)]
        with np.errstate(all="ignore"):
            flat[places] = np.array([value]).astype(array.dtype)[0]
        how = f"{how} set to {value}"
    elif how == "shuffled":
        flat[:] = flat[np.random.default_rng(rng.randrange(2**32)).permutation(flat.size)]
    elif how == "shape":
        array = rng.choice((flat[:-1], array[None], flat[:0], np.concatenate((flat, flat))))
    else:
        kind = rng.choice(("int8", "int32", "uint64", "float32", "float64", "bool", ">i8", "U4"))
        with np.errstate(all="ignore"):
            array = array.astype(kind)
        how = f"type {kind}"
    replace_file(folder, card, name, npy_bytes(array))
    return f"{role}: {how}"


def _use(card: dict[str, Any], name: str) -> str:
    for recommender, each in card["recommenders"].items():
        for part, file in each.get("arrays", {}).items():
            if file == name:
                return f"{recommender}.{part}"
    return name.partition("-")[0]


def npy_bytes(array: np.ndarray[Any, Any]) -> bytes:
    """Return an array as the bytes of a ``.npy`` file."""
    buffer = BytesIO()
    np.save(buffer, array)
    return buffer.getvalue()


def _text(folder: Path, card: dict[str, Any], rng: random.Random) -> str:
    """Change a number in a text, such as a child, a feature or a value of a tree."""
    texts = [name for name in card["files"] if name.endswith(".txt")]
    if not texts:
        return _array(folder, card, rng)
    name = rng.choice(texts)
    words = (folder / name).read_text().split(" ")
    place = rng.randrange(len(words))
    before, words[place] = words[place], rng.choice(("-1", "0", "99", "1e999", "nan", "", "="))
    replace_file(folder, card, name, " ".join(words).encode())
    return f"{name}: word {place}, {before[:20]!r}, set to {words[place]!r}"


def _bytes(folder: Path, card: dict[str, Any], rng: random.Random) -> str:
    """Change bits of any file."""
    name = rng.choice(list(card["files"]))
    content = bytearray((folder / name).read_bytes())
    end = min(len(content), 256) if rng.random() < 0.5 else len(content)
    places = [(rng.randrange(end), rng.randrange(8)) for _ in range(rng.choice((1, 4)))]
    for place, bit in places:
        content[place] ^= 1 << bit
    replace_file(folder, card, name, bytes(content))
    return f"bits {places} of {name} flipped"
