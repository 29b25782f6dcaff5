"""Members out of zip files: only those asked for, flat, and never too much."""

from __future__ import annotations

import lzma
import zipfile
from pathlib import Path, PurePosixPath
from typing import TYPE_CHECKING

from surerec._inputs import damage_in_words
from surerec.datasets._download import disk_errors
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable, Collection


_MAX_BYTES = 8 << 30
_CHUNK = 1 << 20
# The last two: a compression or an encryption that zipfile cannot read.
_FOREIGN = (zipfile.BadZipFile, lzma.LZMAError, NotImplementedError, RuntimeError)


def extract(
    archive: Path, wanted: Callable[[Collection[str]], list[str]], folder: Path
) -> list[Path]:
    """Take members out of a zip file, each into `folder` under its bare name.

    Parameters
    ----------
    archive : Path
        A zip file or a wheel.
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
    with damage_in_words(archive, "is damaged or no zip file", "get it anew"):
        try:
            return _extract(archive, wanted, folder)
        except _FOREIGN as error:
            raise ValueError(str(error) or type(error).__name__) from error


def _extract(
    archive: Path, wanted: Callable[[Collection[str]], list[str]], folder: Path
) -> list[Path]:
    files, left = [], _MAX_BYTES
    with zipfile.ZipFile(archive) as packed:
        for name in wanted([name for name in packed.namelist() if _is_inside(name)]):
            files.append(folder / PurePosixPath(name).name)
            with (
                packed.open(name) as member,
                disk_errors(archive.name, folder),
                files[-1].open("wb") as file,
            ):
                while chunk := member.read(_CHUNK):  # sizes in the archive's directory may lie
                    left -= file.write(chunk)
                    if left < 0:
                        raise InputError(
                            f"{archive} unpacks to more than {_MAX_BYTES / 1e9:,.1f} GB; "
                            "it is not the archive that was meant."
                        )
    return files


def _is_inside(name: str) -> bool:
    outside = name.startswith("/") or ".." in name.split("/") or {"\\", ":"} & set(name)
    return not outside and not name.endswith("/")
