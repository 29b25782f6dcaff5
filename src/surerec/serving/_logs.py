"""Structured logs: one JSON object a line, with request ids and no personal data."""

from __future__ import annotations

import json
import logging
import sys
import time
import traceback
from pathlib import Path
from typing import Any, Final

_LOGGER: Final = logging.getLogger("surerec.serving")
_PACKAGE: Final = Path(__file__).parents[1]


def log(level: int, event: str, /, **fields: Any) -> None:
    """Write a line: what happened, and what is known of it.

    Callers give counts, times, names of routes and keys' public ids; never a path that was asked
    for, an address, a user, an item or a title.
    """
    _LOGGER.log(level, event, extra={"fields": fields})


def configure(level: str, style: str) -> None:
    """Send our lines and uvicorn's warnings to stderr."""
    if style == "auto":
        style = "text" if sys.stderr.isatty() else "json"
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_JsonLines() if style == "json" else _Text())
    ours = [(name, level.upper()) for name in ("surerec.serving", "surerec.live")]
    for name, lowest in (*ours, ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(lowest)
        logger.propagate = False


def error_fields(error: BaseException) -> dict[str, Any]:
    """Give the kind and the place of an error, without its message, which may name a person.

    Examples
    --------
    >>> try:
    ...     {}["ann"]
    ... except KeyError as error:
    ...     error_fields(error)["error"]
    'KeyError'
    """
    frames = traceback.extract_tb(error.__traceback__)[-8:]
    where = [f"{_short(frame.filename)}:{frame.lineno} {frame.name}" for frame in frames]
    return {"error": type(error).__name__, "where": where}


def _short(filename: str) -> str:
    path = Path(filename)
    return str(path.relative_to(_PACKAGE)) if path.is_relative_to(_PACKAGE) else path.name


def _fields(record: logging.LogRecord) -> dict[str, Any]:
    fields = dict(getattr(record, "fields", {}))
    if record.exc_info and record.exc_info[1] is not None:
        fields |= error_fields(record.exc_info[1])
    return fields


class _JsonLines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%Y-%m-%dT%H:%M:%S", time.gmtime(record.created))
        line = {
            "time": f"{at}.{int(record.msecs):03d}Z",
            "level": record.levelname.lower(),
            "event": record.getMessage(),
            "process": record.process,
            **_fields(record),
        }
        return json.dumps(line, default=str)


class _Text(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        at = time.strftime("%H:%M:%S", time.localtime(record.created))
        words = " ".join(f"{name}={value}" for name, value in _fields(record).items())
        return f"{at} {record.levelname.lower():7} {record.getMessage()}  {words}".rstrip()
