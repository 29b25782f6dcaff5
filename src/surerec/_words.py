"""Formatting for messages: values, ids, days, bytes and durations on one line."""

from __future__ import annotations

import re
from difflib import get_close_matches
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import numpy as np

if TYPE_CHECKING:
    from collections.abc import Collection, Iterable

_LONGEST: Final = 80
_CONTROLS: Final = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]")
_COMPARED: Final = 200  # characters of the input: comparison time is quadratic
_MINUTE: Final = 60
_SHORT: Final = 10  # seconds, below which a decimal is shown
_ARGUMENT: Final = re.compile(
    r"""(?<![\w(.])([a-z]+(?:_[a-z]+)*)=("[^"]*"|'[^']*'|True|(?=[\s,.;:)]|$))"""
)
_BOTH_FORMS: Final = re.compile(r" \(--[^()]* on the command line\)")
DAY: Final = 86_400_000_000
"""Microseconds of a day."""


def shown(value: object) -> str:
    r"""Return a short representation of a value on one line.

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
    except Exception:  # noqa: BLE001  # an integer of thousands of digits, or a user's class
        return f"a value of type {type(value).__name__}"
    return text if len(text) <= _LONGEST else f"{text[: _LONGEST // 2 - 1]}…"


def visible(text: str) -> str:
    r"""Return a text for a terminal with control characters escaped, except line breaks and tabs.

    Ids and titles are foreign texts: an escape sequence in one could rewrite the screen.

    Examples
    --------
    >>> visible("Jaws\x1b[2J")
    'Jaws\\x1b[2J'
    """
    return _CONTROLS.sub(lambda found: found[0].encode("unicode_escape").decode(), text)


def as_options(message: str, names: Collection[str]) -> str:
    """Return a message with the arguments in `names` rewritten as command-line options.

    Examples
    --------
    >>> as_options('Pass time="NAME", skip_bad=True or path=.', {"time_column", "skip_bad"})
    'Pass --time-column NAME, --skip-bad or path=.'
    """

    def option(found: re.Match[str]) -> str:
        column = f"{found[1]}_column"  # what Python calls user=, the command line --user-column
        name = column if found[2] in {'"NAME"', '""'} and column in names else found[1]
        if name not in names:
            return found[0]
        value = found[2].removesuffix("True")
        value = value[1:-1] if value[1:-1] and " " not in value else value
        return f"--{name.replace('_', '-')} {value}".rstrip()

    return _ARGUMENT.sub(option, _BOTH_FORMS.sub("", message))


def counted(n: int, noun: str) -> str:
    """Return a number with its noun; pass the plural.

    Examples
    --------
    >>> counted(1, "windows"), counted(1200, "users")
    ('1 window', '1,200 users')
    """
    return f"{n:,} {noun.removesuffix('s') if n == 1 else noun}"


def declared_name(own: Any) -> str | None:
    """Return the `name` attribute of an object on one line; None without one."""
    name = getattr(own, "name", None)
    return (" ".join(name.split()) or None) if isinstance(name, str) else None


def public_name(own: Any) -> str | None:
    """Return the public name of a function or class, or of an object's class.

    Returns
    -------
    str or None
        None for a lambda or a private name.

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
    """Return the names most similar to the input, for suggestions in messages.

    Examples
    --------
    >>> near("ml100k", ["ml-100k", "ml-1m", "flixster"])
    ['ml-100k', 'ml-1m']
    """
    return get_close_matches(typed[:_COMPARED], list(names), n=n, cutoff=alike)


def day_of(time: int) -> str:
    """Return the date of a time in microseconds since 1970.

    Examples
    --------
    >>> day_of(1_000_000_000_000_000)
    '2001-09-09'
    """
    return str(np.datetime64(time, "us").astype("datetime64[D]"))


def in_bytes(n_bytes: float) -> str:
    """Return a number of bytes with a unit.

    Examples
    --------
    >>> in_bytes(15_376_000_000)
    '15.4 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:  # noqa: PLR2004
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"


def in_seconds(seconds: float) -> str:
    """Return a duration with its unit.

    Examples
    --------
    >>> in_seconds(0.18), in_seconds(26.4), in_seconds(193)
    ('0.2 s', '26 s', '3 min 13 s')
    """
    if seconds < _SHORT:
        return f"{seconds:.1f} s"
    minutes, rest = divmod(round(seconds), _MINUTE)
    return f"{minutes} min {rest} s" if minutes else f"{rest} s"
