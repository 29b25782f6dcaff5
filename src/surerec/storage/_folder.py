"""A model folder on disk: its manifest, how it is changed, and errors as sentences."""

from __future__ import annotations

import errno
import json
import os
import re
import secrets
import shutil
import stat
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Final

from surerec._files import DISK_FULL, check_utf8, digest
from surerec._inputs import did_you_mean
from surerec._lock import exclusive
from surerec._memory import in_words
from surerec.errors import InputError
from surerec.storage._files import ROLES, file_kind
from surerec.storage._manifest import FORMAT, FORMAT_VERSION, Manifest, is_intact

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterable, Iterator
    from pathlib import Path

    from surerec.storage._manifest import FileRecord


MANIFEST: Final = "manifest.json"
LOCK: Final = ".lock"

_NAME_ANOTHER: Final = "name the folder that a model was saved into"

_DATA_FILE = "|".join(rf"{role}-[0-9a-f]{{16}}\.{file_kind(role)}" for role in sorted(ROLES))
_PART = r"\.[0-9a-f]{8}\.part"
_OURS = re.compile(rf"(?:{_DATA_FILE})(?:{_PART})?|{re.escape(MANIFEST)}{_PART}")


def is_ours(name: str) -> bool:
    """Return whether a name is that of a data file, or of any file on its way."""
    return _OURS.fullmatch(name) is not None


def names_in(folder: Path) -> set[str]:
    """List a folder; one that another saver has just given up is empty."""
    try:
        return {entry.name for entry in folder.iterdir()}
    except FileNotFoundError:
        return set()


def is_unfinished(names: set[str]) -> bool:
    """Return whether there is nothing in a folder but what a save leaves that has not ended."""
    return all(is_ours(name) or name in {LOCK, MANIFEST} for name in names)


def damaged(folder: Path, what: str) -> InputError:
    """Return the error that says what is wrong with a model, and what to do."""
    return InputError(
        f"The model in {folder} is damaged: {what}; restore it from a copy, or delete the folder "
        "and save the model again."
    )


def plain_size(folder: Path, name: str) -> int:
    """Return the size of a file in the folder itself; a link could lead anywhere."""
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


_BINARY = getattr(os, "O_BINARY", 0)  # of Windows


def is_there(path: Path, record: FileRecord) -> bool:
    """Return whether a file is there and whole, so that saving again repairs a damaged one."""
    try:
        is_plain = path.is_file() and not path.is_symlink()
        same_size = is_plain and path.stat().st_size == record.bytes
        return same_size and digest(path, "sha256") == record.sha256
    except OSError:
        return False


def require_room(folder: Path, needed: int) -> None:
    """Raise the error of a full disk before anything is written."""
    free = shutil.disk_usage(folder).free
    if needed > free:
        raise OSError(errno.ENOSPC, f"{in_words(needed)} needed, {in_words(free)} free")


def write(
    path: Path, pieces: Iterable[memoryview], advance: Callable[[float], None] = lambda _: None
) -> None:
    """Put a complete file in its place in one step, on the disk before it has its name.

    Nobody may read it who may not list its folder: those of a private folder are private.
    """
    aside = path.with_name(f"{path.name}.{secrets.token_hex(4)}.part")
    mode = stat.S_IMODE(path.parent.stat().st_mode) & 0o666
    descriptor = os.open(aside, os.O_WRONLY | os.O_CREAT | os.O_EXCL | _BINARY, mode | 0o600)
    with os.fdopen(descriptor, "wb") as file:
        for piece in pieces:
            file.write(piece)
            advance(piece.nbytes)
        file.flush()
        os.fsync(file.fileno())
    aside.replace(path)


def remove_others(folder: Path, keep: Collection[str]) -> None:
    """Remove the data files that are not kept, and what interrupted saves left."""
    for entry in list(folder.iterdir()):
        if is_ours(entry.name) and entry.name not in keep:
            with suppress(OSError):  # Windows keeps what a reader has open; the next save tries
                entry.unlink()


def sync_folder(folder: Path) -> None:
    """Make names durable, where folders can be synced: not on Windows."""
    try:
        descriptor = os.open(folder, os.O_RDONLY)
    except OSError:
        return
    try:
        os.fsync(descriptor)
    except OSError as error:
        if error.errno not in {errno.EINVAL, errno.ENOTSUP}:
            raise
    finally:
        os.close(descriptor)


@contextmanager
def sole_writer(folder: Path) -> Iterator[None]:
    """Hold the folder's lock; make the folder, and take it away if it stays empty."""
    with ExitStack() as stack:
        while True:
            is_new = not folder.exists()
            folder.mkdir(parents=True, exist_ok=True)
            if is_new:
                stack.callback(_remove_if_empty, folder)
            try:
                stack.enter_context(exclusive(folder / LOCK))
                break
            except FileNotFoundError:
                continue  # another saver gave up and took the folder away while we waited
        yield


def _remove_if_empty(folder: Path) -> None:
    with suppress(OSError):
        folder.rmdir()


@contextmanager
def writing_errors(folder: Path) -> Iterator[None]:
    """Turn the disk's errors into a sentence that says what to do; refuse an unreadable name."""
    check_utf8(folder)
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        if error.errno in DISK_FULL:
            raise InputError(
                f"The model does not fit into {folder} ({reason}), and nothing was changed; make "
                "room there, or save into a folder elsewhere."
            ) from error
        raise InputError(
            f"The model cannot be written into {folder} ({reason}); make it writable, or save "
            "into a folder elsewhere."
        ) from error
