"""What JSON from a stranger must look like before it is used."""

from __future__ import annotations

from typing import Any


def expect(value: object, **kinds: type | tuple[type, ...]) -> dict[str, Any]:
    """Give a value that has exactly these keys, each of its kind; ValueError if it is another."""
    if not isinstance(value, dict) or value.keys() != kinds.keys():
        raise ValueError(value)
    for key, kind in kinds.items():
        # No field is true or false, which Python takes for 1 and 0.
        if not isinstance(value[key], kind) or isinstance(value[key], bool):
            raise ValueError(key)  # noqa: TRY004  # not a caller's mistake: the bytes are wrong
    return value
