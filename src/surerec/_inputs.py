"""What every reader of files needs: plain files only, within memory, errors in a sentence."""

from __future__ import annotations

import codecs
import csv
import json
import stat
import sys
import zlib
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

import polars as pl

from surerec._memory import available_memory
from surerec._words import in_words, near
from surerec.errors import InputError, SurerecError

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path


_KINDS: Final = (
    (stat.S_ISDIR, "a folder"),
    (stat.S_ISFIFO, "a pipe"),
    (stat.S_ISCHR, "a device"),
    (stat.S_ISBLK, "a device"),
    (stat.S_ISSOCK, "a socket"),
)
_UTF_16: Final = (codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE)
_SHOWN: Final = 200  # characters of what a library says
_NEAR: Final = 0.75  # of difflib's ratio: a slip or two of the fingers
# What libraries say of content that they cannot read; a panic of polars is no Exception.
_DAMAGE: Final = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError,
    zlib.error, csv.Error, ValueError, TypeError, LookupError, ArithmeticError, MemoryError,
    RecursionError,
)  # fmt: skip


def _damage() -> tuple[type[BaseException], ...]:
    """Return what libraries raise; pyarrow, which is slow to import, only if it is in use."""
    arrow = sys.modules.get("pyarrow")
    return _DAMAGE if arrow is None else (*_DAMAGE, arrow.ArrowException)


def check_file(path: Path) -> int:
    """Return the size of a plain file; refuse what is none: a pipe or a device may never end.

    Examples
    --------
    >>> from pathlib import Path
    >>> check_file(Path("/nowhere.csv"))
    Traceback (most recent call last):
    surerec.errors.InputError: /nowhere.csv: no such file.
    """
    try:
        about = path.stat()
    except FileNotFoundError:
        raise InputError(f"{path}: no such file.") from None
    except (OSError, ValueError) as error:  # a name with a NUL in it is a ValueError
        raise InputError(f"{path}: cannot be read ({reason(error)}).") from error
    kind = next((words for is_one, words in _KINDS if is_one(about.st_mode)), None)
    if kind is not None:
        raise InputError(f"{path}: is {kind}, not a file; copy what it gives into a file first.")
    return about.st_size


def did_you_mean(path: Path, otherwise: str = ".") -> str:
    """Return the end of a sentence about a missing path: what is beside it, if it is near.

    Examples
    --------
    >>> from pathlib import Path
    >>> did_you_mean(Path("/nowhere/ratings.csv"))
    '.'
    """
    try:
        beside = sorted(other.name for other in path.parent.iterdir())
    except (OSError, ValueError):  # a name with a NUL in it is a ValueError
        return otherwise
    alike = [name for name in beside if name.split(".")[0] == path.name]
    alike += near(path.name, beside, n=1, alike=_NEAR)
    return f"; did you mean {path.with_name(alike[0])}?" if alike else otherwise


def read_whole(path: Path) -> bytes:
    """Return the content of a plain file that leaves three quarters of the memory free."""
    size, limit = check_file(path), available_memory() // 4
    if size > limit:
        raise InputError(
            f"{path}: has {in_words(size)}, more than a quarter of the free memory "
            f"({in_words(limit)})."
        )
    with damage_in_words(path, "cannot be read"), path.open("rb") as file:
        return file.read(size)  # not to the end: files under /proc say 0, and some never end


def read_text(path: Path) -> str:
    """Return the text of a plain file in UTF-8, or in UTF-16 that is marked as such."""
    content = read_whole(path)
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    with damage_in_words(path, "is no text in UTF-8"):
        return content.decode(encoding)


def parse_json(content: bytes | str) -> Any:
    """Parse JSON, or raise ValueError, also for what is nested too deep."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deep") from error


@contextmanager
def damage_in_words(where: object, problem: str, advice: str = "") -> Iterator[None]:
    """Turn what libraries raise while they read content into one sentence about it.

    Parameters
    ----------
    where : object
        What is read; the sentence begins with it.
    problem : str
        What is then the matter, such as "not a readable Parquet file".
    advice : str, optional
        What to do about it.

    Examples
    --------
    >>> with damage_in_words("r.csv.gz", "a damaged gzip file", "fetch it again"):
    ...     zlib.decompress(b"no")
    Traceback (most recent call last):
    surerec.errors.InputError: r.csv.gz: a damaged gzip file (Error -3 while ...); fetch it again.
    """
    try:
        yield
    except SurerecError:
        raise
    except _damage() as error:
        end = f"; {advice}." if advice else "."
        raise InputError(f"{where}: {problem} ({reason(error)}){end}") from error


def reason(error: BaseException) -> str:
    r"""Return the first line of what an error says, without control characters.

    Examples
    --------
    >>> reason(ValueError("first\nsecond"))
    'first'
    """
    said = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    first = next((line.strip() for line in said.splitlines() if line.strip()), "")
    plain = "".join(c if c.isprintable() else "?" for c in first).rstrip(".")
    return (plain or type(error).__name__)[:_SHOWN]
