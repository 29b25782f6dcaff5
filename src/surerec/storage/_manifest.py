"""The manifest of a model folder, protected by a checksum."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict, dataclass, field
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from surerec._arguments import MOST
from surerec._state import State
from surerec._version import __version__
from surerec.errors import InputError
from surerec.interactions import RowsRead
from surerec.storage._files import (
    FILE_NAME,
    MOST_TEXT,
    STATE_ROLES,
    Content,
    content_of,
    file_name,
    role_of,
    roles_for,
)

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from surerec.storage._files import FileRecord

JSON: TypeAlias = "bool | int | float | str | Sequence[JSON] | Mapping[str, JSON] | None"

MANIFEST: Final = "manifest.json"

_FORMAT: Final = "surerec-model"
_FORMAT_VERSION: Final = 6
"""The only format that is read and written."""

_CARD: Final = {
    "format": str,
    "format_version": int,
    "surerec_version": str,
    "created": str,
    "updated": str,
    "data": (
        None,
        {
            "name": (None, str),
            "origin": (None, str),
            "rows_read": dict.fromkeys(asdict(RowsRead()), int),
        },
    ),
    "counts": {"users": int, "items": int, "rows": (None, int)},
    "settings": {"ties": str, "rows": str},
    "recommenders": {str: {"kind": str, "params": dict, "arrays": {str: str}, "texts": {str: str}}},
    "files": {str: {"bytes": int, "sha256": str}},
}
_CHECKSUM: Final = "sha256"
# Names appear in URLs and on command lines, where dots alone would be a folder.
_NAME: Final = re.compile(r"(?!\.+$)[A-Za-z0-9._-]{1,100}")
_STATE_NAME: Final = re.compile(r"[a-z][a-z0-9_]{0,49}")


@dataclass(frozen=True, eq=False)
class RecommenderSpec:
    """A recommender as it is saved: kind, parameters and state.

    Examples
    --------
    >>> RecommenderSpec("InductiveConformal", {"measure": "CM12"})
    RecommenderSpec(kind='InductiveConformal', params={'measure': 'CM12'})
    """

    kind: str
    """Class of the recommender."""
    params: Mapping[str, JSON] = field(default_factory=dict)
    """Parameters that JSON can represent."""
    state: State = field(default=State(), repr=False)
    """Numeric arrays of any shape, and texts, by lower-case names."""


def stored(
    recommenders: Mapping[str, RecommenderSpec],
) -> tuple[dict[str, Any], dict[str, Content]]:
    """Return the manifest entries of recommenders, and the files of their states by name.

    Raises
    ------
    InputError
        If a recommender cannot be saved.
    """
    cards, files = dict[str, Any](), dict[str, Content]()
    for name, spec in recommenders.items():
        _check_name(name)
        card = cards[name] = {"kind": spec.kind, "params": _stored_params(name, spec.params)}
        for kind, role in STATE_ROLES.items():
            card[kind] = {}
            for key, value in getattr(spec.state, kind).items():
                _check_state_name(name, key)
                try:
                    content = content_of(role, value)
                except ValueError as error:
                    raise InputError(
                        f"{key!r} in the {kind} of recommender {name!r} cannot be stored: {error}."
                    ) from None
                card[kind][key] = content.name
                files[content.name] = content
    return cards, files


def _check_name(name: object) -> None:
    if not isinstance(name, str) or not _NAME.fullmatch(name):
        raise InputError(
            f"{name!r} is not a valid recommender name; use up to 100 letters (a to z), digits, "
            "'.', '_' and '-', not dots alone."
        )


def _check_state_name(name: str, key: object) -> None:
    if not isinstance(key, str) or not _STATE_NAME.fullmatch(key):
        raise InputError(
            f"{key!r} is not a valid array or text name (recommender {name!r}); use up to 50 "
            "lower-case letters (a to z), digits and '_', a letter first."
        )


def _stored_params(name: str, params: Any) -> Any:
    """Return parameters as they will be loaded; refuse values that JSON cannot represent."""
    try:
        found = json.loads(json.dumps(params, allow_nan=False))
    except (TypeError, ValueError, RecursionError):
        found = None
    if not isinstance(found, dict) or found != params:
        raise InputError(
            f"The parameters of recommender {name!r} cannot be stored ({params!r}); use text, "
            "finite numbers, True, False, None, lists, and dicts with text as keys."
        )
    return found


def new_card(
    about: dict[str, Any], recommenders: dict[str, Any], files: Mapping[str, FileRecord]
) -> dict[str, Any]:
    """Return a new manifest; :func:`surerec.storage.read_card` describes its fields."""
    now = datetime.now(UTC).isoformat(timespec="seconds")
    return {
        "format": _FORMAT,
        "format_version": _FORMAT_VERSION,
        "surerec_version": __version__,
        "created": now,
        "updated": now,
        **about,
        "recommenders": recommenders,
        "files": dict(files),
    }


def sizes_of(counts: Mapping[str, int | None]) -> dict[str, int]:
    """Return array dimensions by name."""
    return {f"n_{name}": n for name, n in counts.items() if n is not None}


def merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any] | None:
    """Merge two manifests of the same statistics; return None if the statistics differ.

    The new recommenders come first, because the first one is the default. The name of the data may
    differ.
    """
    mine, theirs = _statistics_files(new), _statistics_files(old)
    if mine != theirs or any(old[name] != new[name] for name in ("counts", "settings")):
        return None
    recommenders = new["recommenders"] | {
        name: each for name, each in old["recommenders"].items() if name not in new["recommenders"]
    }
    states, files = _state_files(recommenders), old["files"] | new["files"]
    kept = mine | {name: each for name, each in files.items() if name in states}
    return {**new, "created": old["created"], "recommenders": recommenders, "files": kept}


def _statistics_files(card: dict[str, Any]) -> dict[str, FileRecord]:
    states = STATE_ROLES.values()
    return {name: each for name, each in card["files"].items() if role_of(name) not in states}


def _state_files(recommenders: dict[str, Any]) -> set[str]:
    return {
        file
        for each in recommenders.values()
        for kind in STATE_ROLES
        for file in each[kind].values()
    }


def encode(card: Mapping[str, Any]) -> bytes:
    """Encode a manifest as canonical JSON that ends with a checksum.

    The encoding is unique, so that encoding it again reveals every changed byte.
    """
    text = json.dumps(card, indent=2, allow_nan=False)
    checksum = hashlib.sha256(text.encode("ascii")).hexdigest()
    sealed = json.dumps({**card, _CHECKSUM: checksum}, indent=2, allow_nan=False)
    return (sealed + "\n").encode("ascii")


def decode(raw: bytes, folder: Path) -> dict[str, Any]:
    """Decode a manifest, or raise InputError."""
    changed = damaged(folder, f"{MANIFEST} has changed since it was saved")
    try:
        card = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict) or card.get("format") != _FORMAT:
        if _FORMAT.encode() in raw:
            raise changed
        raise InputError(
            f"The folder {folder} holds no surerec model: its {MANIFEST} is from another program. "
            "Pass a folder that holds a saved model, or save into a new one."
        )
    version = card.get("format_version")
    if isinstance(version, int) and version != _FORMAT_VERSION:
        found = "a newer" if version > _FORMAT_VERSION else "an earlier"
        raise InputError(
            f"The model in {folder} was saved by {found} surerec (format {version}; this version "
            f"reads format {_FORMAT_VERSION}). Upgrade surerec, or refit the model in another "
            "folder."
        )
    card.pop(_CHECKSUM, None)
    try:
        is_whole = encode(card) == raw
        _check_card(card)
    except (ValueError, RecursionError):
        is_whole = False
    if not is_whole:
        raise changed
    return card


def damaged(folder: Path, what: str) -> InputError:
    """Return the error for a damaged model."""
    return InputError(
        f"The model in {folder} is damaged: {what}. Restore it from a backup, or delete the folder "
        "and save the model again."
    )


def _check_card(card: dict[str, Any]) -> None:
    """Raise ValueError if surerec cannot have written a manifest."""
    if not _fits(card, _CARD):
        raise ValueError("not a manifest")
    for name, each in card["recommenders"].items():
        _check_name(name)
        for kind, role in STATE_ROLES.items():
            for key, file in each[kind].items():
                _check_state_name(name, key)
                if role_of(file) != role:
                    raise ValueError(file)
    for name, record in card["files"].items():
        # A name consists of a role and a checksum; it is never a path.
        role, sha256 = role_of(name), record["sha256"]
        if not re.fullmatch(FILE_NAME, name) or name != file_name(role, sha256):
            raise ValueError(name)
        if role == "text" and record["bytes"] > MOST_TEXT:
            raise ValueError(record)
    # Every file is used, and every used file is listed.
    has_profiles, of_statistics = card["data"] is not None, _statistics_files(card)
    needed = roles_for(card["settings"]["rows"], with_profiles=has_profiles)
    states = card["files"].keys() - of_statistics.keys()
    if (
        sorted(map(role_of, of_statistics)) != sorted(needed)
        or states != _state_files(card["recommenders"])
        or has_profiles == (card["counts"]["rows"] is None)
    ):
        raise ValueError("uses")


def _fits(value: object, kind: Any) -> bool:
    """Return whether a value matches a type, one of several, or a dict of types by key."""
    if isinstance(kind, tuple):
        return any(_fits(value, each) for each in kind)
    if isinstance(kind, dict) and isinstance(value, dict):
        if str in kind:  # any key
            return all(_fits(each, kind[str]) for each in value.values())
        return value.keys() == kind.keys() and all(_fits(value[key], kind[key]) for key in kind)
    if kind is int:  # a count that fits into memory; excludes True
        return type(value) is int and 0 <= value <= MOST
    return value is None if kind is None else type(value) is kind
