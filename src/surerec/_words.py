"""Values in words: any value in a few words of one line, days, bytes and durations."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Iterable

_LONGEST: Final = 80
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COMPARED: Final = 200  # characters of what was typed: comparing takes time by the square
_MINUTE: Final = 60
_SHORT: Final = 10  # seconds, below which a decimal is shown
DAY: Final = 86_400_000_000
"""Microseconds of a day."""


def shown(value: object) -> str:
    r"""Return what a value looks like, on one line and not longer than a sentence bears.

    Examples
    --------
    >>> shown("a\nb"), shown([1, 2])
    ("'a\\nb'", '[1, 2]')
    >>> shown("x" * 1000)
    "'xxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxxx…"
    """
    if isinstance(value, (str, bytes)) and len(value) > _LONGEST:
        return f"{value[: _LONGEST // 2 - 2]!r}".rstrip("'\"") + "…"
    try:
        text = " ".join(repr(value).split())
    except Exception:  # noqa: BLE001  # an integer of thousands of digits; anybody's own class
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2 - 1]}…"


def visible(text: str) -> str:
    r"""Return a text whose control characters are escaped, for a terminal; lines and tabs stay.

    Ids and titles are others' texts: an escape sequence in one could rewrite what is on the screen.

    Examples
    --------
    >>> visible("Jaws\x1b[2J")
    'Jaws\\x1b[2J'
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def counted(n: int, noun: str) -> str:
    """Return a number with its noun, which is given in the plural.

    Examples
    --------
    >>> counted(1, "windows"), counted(1200, "users")
    ('1 window', '1,200 users')
    """
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def declared_name(own: Any) -> str | None:
    """Return the text that something declares as its `name`, on one line; None without one."""
    said = getattr(own, "name", None)
    return (" ".join(said.split()) or None) if isinstance(said, str) else None


def public_name(own: Any) -> str | None:
    """Return the name of a function or class, or of the class of an object, for readers.

    Returns
    -------
    str or None
        None for a lambda, and for what is private.

    Examples
    --------
    >>> public_name(max), public_name(partial(max, 1)), public_name(lambda: None)
    ('max', 'max', None)
    """
    while isinstance(own, partial):
        own = own.func
    name = getattr(own, "__name__", type(own).__name__)
    return name if isinstance(name, str) and not name.startswith(("_", "<")) else None


def near(typed: str, names: Iterable[str], *, n: int = 3, alike: float = 0.5) -> list[str]:
    """Return the names that look most like what was typed, for a sentence that suggests them.

    Examples
    --------
    >>> near("ml100k", ["ml-100k", "ml-1m", "flixster"])
    ['ml-100k', 'ml-1m']
    """
    return get_close_matches(typed[:_COMPARED], list(names), n=n, cutoff=alike)


def day_of(time: int) -> str:
    """Return the day of an instant in microseconds since 1970.

    Examples
    --------
    >>> day_of(1_000_000_000_000_000)
    '2001-09-09'
    """
    return str(np.datetime64(time, "us").astype("datetime64[D]"))


def in_words(n_bytes: float) -> str:
    """Return a number of bytes in words.

    Examples
    --------
    >>> in_words(15_376_000_000)
    '15.4 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:  # noqa: PLR2004
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def in_seconds(seconds: float) -> str:
    """Return a duration in words.

    Examples
    --------
    >>> in_seconds(0.18), in_seconds(26.4), in_seconds(193)
    ('0.2 s', '26 s', '3 min 13 s')
    """
    if seconds < _SHORT:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
