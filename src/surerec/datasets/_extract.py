"""Members out of zip and tar files: only those asked for, flat, and never too much."""

from __future__ import annotations

import lzma
import tarfile
import zipfile
import zlib
from contextlib import contextmanager
from pathlib import Path, PurePosixPath
from typing import IO, TYPE_CHECKING

from surerec._inputs import damage_in_words
from surerec.datasets._download import disk_errors
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Iterator


_MAX_BYTES = 8 << 30
_CHUNK = 1 << 20
_FOREIGN = (
    zipfile.BadZipFile, tarfile.TarError, lzma.LZMAError,
    NotImplementedError, RuntimeError,  # a compression or an encryption that zipfile cannot read
)  # fmt: skip


def is_archive(path: Path) -> bool:
    """Say whether a file is a zip or a tar file, by its content."""
    try:
        return zipfile.is_zipfile(path) or tarfile.is_tarfile(path)
    except (OSError, EOFError, zlib.error, lzma.LZMAError, ValueError):
        return False  # whoever reads it says what is wrong with it


def extract(
    archive: Path, wanted: Callable[[Collection[str]], list[str]], folder: Path
) -> list[Path]:
    """Take members out of an archive, each into `folder` under its bare name.

    Parameters
    ----------
    archive : Path
        A zip file, a wheel, or a tar file, compressed or not.
    wanted : callable
        Chooses from the names of the members that are plain files inside the archive's folder.
    folder : Path
        An existing folder.

    Returns
    -------
    list of Path
        The files written, in the order of the names chosen.

    Raises
    ------
    InputError
        If the archive is damaged, or unpacks to more than any data set has.
    FetchError
        If the disk is full.
    """
    with _damage(archive), _opened(archive) as (names, open_member):
        files, left = [], _MAX_BYTES
        for name in wanted(names):
            files.append(folder / PurePosixPath(name).name)
            with open_member(name) as member, disk_errors(archive.name, folder):
                left -= _copy(member, files[-1], left)
            if left < 0:
                raise InputError(
                    f"{archive} unpacks to more than {_MAX_BYTES / 1e9:,.1f} GB; "
                    "it is not the archive that was meant."
                )
        return files


@contextmanager
def _damage(archive: Path) -> Iterator[None]:
    with damage_in_words(archive, "is damaged or no zip or tar file", "get it anew"):
        try:
            yield
        except _FOREIGN as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _copy(member: IO[bytes], target: Path, limit: int) -> int:
    """Copy until the end or just past the limit: sizes in an archive's directory may lie."""
    written = 0
    with target.open("wb") as file:
        for chunk in _chunks(member):
            written += file.write(chunk)
            if written > limit:
                break
    return written


def _chunks(member: IO[bytes]) -> Iterator[bytes]:
    while True:
        try:
            chunk = member.read(_CHUNK)
        except OSError as error:  # gzip's complaint of damage is an OSError, like a full disk's
            raise tarfile.ReadError(str(error)) from error
        if not chunk:
            return
        yield chunk


@contextmanager
def _opened(archive: Path) -> Iterator[tuple[list[str], Callable[[str], IO[bytes]]]]:
    if zipfile.is_zipfile(archive):
        with zipfile.ZipFile(archive) as packed:
            yield [name for name in packed.namelist() if _is_inside(name)], packed.open
        return
    with tarfile.open(archive) as tar:
        members = {each.name: each for each in tar if each.isreg() and _is_inside(each.name)}

        def open_member(name: str) -> IO[bytes]:
            file = tar.extractfile(members[name])
            if file is None:
                raise tarfile.ReadError(name)
            return file

        yield list(members), open_member


def _is_inside(name: str) -> bool:
    outside = name.startswith("/") or ".." in name.split("/") or {"\\", ":"} & set(name)
    return not outside and not name.endswith("/")
