"""Reading files: regular files only, within memory, library errors as InputError."""

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
from surerec._words import in_bytes, near
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
_SHOWN: Final = 200  # characters of a library's message
_NEAR: Final = 0.75  # difflib ratio of one or two typing errors
# What libraries raise for unreadable content; a panic of polars is not an Exception.
_DAMAGE: Final = (
    pl.exceptions.PolarsError, pl.exceptions.PanicException, OSError, EOFError,
    zlib.error, csv.Error, ValueError, TypeError, LookupError, ArithmeticError, MemoryError,
    RecursionError,
)  # fmt: skip


def _damage() -> tuple[type[BaseException], ...]:
    """Return what libraries raise; pyarrow is slow to import and included only if loaded."""
    arrow = sys.modules.get("pyarrow")
    return _DAMAGE if arrow is None else (*_DAMAGE, arrow.ArrowException)


def check_file(path: Path) -> int:
    """Return the size of a regular file; pipes and devices may never end, so they are errors.

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
        raise InputError(f"{path}: {kind}, not a file. Copy its content into a file first.")
    return about.st_size


def did_you_mean(path: Path, otherwise: str = ".") -> str:
    """Return the end of a message about a missing path: a similar name in the same folder.

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
    """Return the content of a regular file of at most a quarter of the free memory."""
    size, limit = check_file(path), available_memory() // 4
    if size > limit:
        raise InputError(
            f"{path}: {in_bytes(size)}, more than a quarter of the free memory "
            f"({in_bytes(limit)}). Use a smaller file, or a machine with more memory."
        )
    with as_input_error(path, "cannot be read"), path.open("rb") as file:
        return file.read(size)  # files under /proc report size 0, and some never end


def read_text(path: Path) -> str:
    """Return the text of a file in UTF-8, or in UTF-16 with a byte order mark."""
    content = read_whole(path)
    encoding = "utf-16" if content.startswith(_UTF_16) else "utf-8-sig"
    with as_input_error(path, "not a text in UTF-8"):
        return content.decode(encoding)


def parse_json(content: bytes | str) -> Any:
    """Parse JSON; raise ValueError also if it is nested too deeply."""
    try:
        return json.loads(content)
    except RecursionError as error:
        raise ValueError("nested too deeply") from error


@contextmanager
def as_input_error(where: object, problem: str, advice: str = "") -> Iterator[None]:
    """Convert library errors while reading content into InputError.

    Parameters
    ----------
    where : object
        What is read; the message begins with it.
    problem : str
        What is wrong, such as "not a readable Parquet file".
    advice : str, optional
        How to fix it, as a sentence.

    Examples
    --------
    >>> with as_input_error("r.csv.gz", "a damaged gzip file", "Download it again."):
    ...     zlib.decompress(b"no")
    Traceback (most recent call last):
    surerec.errors.InputError: r.csv.gz: a damaged gzip file (Error -3 ...). Download it again.
    """
    try:
        yield
    except SurerecError:
        raise
    except _damage() as error:
        raise InputError(f"{where}: {problem} ({reason(error)}). {advice}".rstrip()) from error


def reason(error: BaseException) -> str:
    r"""Return the first line of an error message, without control characters.

    Examples
    --------
    >>> reason(ValueError("first\nsecond"))
    'first'
    """
    text = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
    first = next((line.strip() for line in text.splitlines() if line.strip()), "")
    plain = "".join(c if c.isprintable() else "?" for c in first).rstrip(".")
    return (plain or type(error).__name__)[:_SHOWN]
