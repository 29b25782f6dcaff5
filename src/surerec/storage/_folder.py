"""A folder that should hold a model: its manifest, or a sentence on why there is none."""

from __future__ import annotations

import json
import re
import stat
from contextlib import contextmanager
from typing import TYPE_CHECKING, Final

from surerec._inputs import did_you_mean
from surerec.errors import InputError
from surerec.storage._layout import ROLES, file_kind
from surerec.storage._manifest import FORMAT, FORMAT_VERSION, Manifest, is_intact

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


MANIFEST: Final = "manifest.json"
LOCK: Final = ".lock"

_NAME_ANOTHER: Final = "name the folder that a model was saved into"

_DATA_FILE = "|".join(rf"{role}-[0-9a-f]{{16}}\.{file_kind(role)}" for role in sorted(ROLES))
_PART = r"\.[0-9a-f]{8}\.part"
_OURS = re.compile(rf"(?:{_DATA_FILE})(?:{_PART})?|{re.escape(MANIFEST)}{_PART}")


def is_ours(name: str) -> bool:
    """Tell whether a name is that of a data file, or of any file on its way."""
    return _OURS.fullmatch(name) is not None


def names_in(folder: Path) -> set[str]:
    """List a folder; one that another saver has just given up is empty."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


def is_unfinished(names: set[str]) -> bool:
    """Tell whether there is nothing in a folder but what a save leaves that has not ended."""
    return all(is_ours(name) or name in {LOCK, MANIFEST} for name in names)


def damaged(folder: Path, what: str) -> InputError:
    """Say what is wrong with a model, and what to do."""
    return InputError(
        f"The model in {folder} is damaged: {what}; restore it from a copy, or delete the folder "
        "and save the model again."
    )


def plain_size(folder: Path, name: str) -> int:
    """Give the size of a file in the folder itself; a link could lead anywhere."""
    about = (folder / name).lstat()
    if not stat.S_ISREG(about.st_mode):
        raise damaged(folder, f"{name} is a link or no file at all")
    return about.st_size


@contextmanager
def reading_errors(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into a sentence, but for a missing file."""
    try:
        yield
    except FileNotFoundError:
        raise
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        raise InputError(
            f"The model in {folder} cannot be read ({reason}); check the disk and the rights."
        ) from error


def read_manifest(folder: Path) -> Manifest:
    """Read what a folder says of itself.

    Raises
    ------
    InputError
        If there is no model, a damaged one, or one of a newer format.
    """
    try:
        with reading_errors(folder):
            if not folder.exists():
                hint = did_you_mean(folder, f"; {_NAME_ANOTHER}.")
                raise InputError(f"There is no folder {folder}{hint}")
            if not folder.is_dir():
                raise InputError(f"{folder} is a file; {_NAME_ANOTHER}.")
            plain_size(folder, MANIFEST)
            raw = (folder / MANIFEST).read_bytes()
    except FileNotFoundError:
        raise _no_manifest(folder) from None
    return _decode(raw, folder)


def _no_manifest(folder: Path) -> InputError:
    with reading_errors(folder):
        names = names_in(folder)
    if names and is_unfinished(names):
        return InputError(
            f"The folder {folder} holds no complete model, for its saving was interrupted or is "
            "still going on; wait for it, or save the model again."
        )
    return InputError(
        f"The folder {folder} holds no surerec model, for it has no {MANIFEST}; {_NAME_ANOTHER}."
    )


def _decode(raw: bytes, folder: Path) -> Manifest:
    changed = damaged(folder, f"{MANIFEST} is not as it was saved")
    try:
        card = json.loads(raw.decode("utf-8"))
    except (ValueError, RecursionError):
        card = None
    if not isinstance(card, dict) or card.get("format") != FORMAT:
        if FORMAT.encode() in raw:
            raise changed
        raise InputError(
            f"The folder {folder} holds no surerec model, for another program wrote its "
            f"{MANIFEST}; name the folder of a model, or save into a new one."
        )
    version = card.get("format_version")
    if isinstance(version, int) and version > FORMAT_VERSION:
        raise InputError(
            f"The model in {folder} was written by a newer surerec (format {version}, and this "
            f"one reads {FORMAT_VERSION}); upgrade surerec, or save the model again elsewhere."
        )
    if not is_intact(card, raw):
        raise changed
    if isinstance(version, int) and version < FORMAT_VERSION:
        raise InputError(
            f"The model in {folder} was saved by an earlier surerec (format {version}): refit it."
        )
    try:
        return Manifest.from_card(card)
    except ValueError:
        raise changed from None
