"""Values in sentences: whatever they are, they take a few words of one line."""

from __future__ import annotations

from typing import Final

_LONGEST: Final = 80


def shown(value: object) -> str:
    r"""Give what a value looks like, on one line and not longer than a sentence bears.

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
