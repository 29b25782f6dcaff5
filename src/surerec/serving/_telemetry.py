"""Structured logs without personal data, and the metrics of all workers for Prometheus.

``PROMETHEUS_MULTIPROC_DIR`` must be set before this is imported: prometheus-client then keeps each
process's numbers in files there, so that those of a worker that died still count.
"""

from __future__ import annotations

import json
import logging
import sys
import traceback
from datetime import UTC, datetime
from pathlib import Path
from typing import Any, Final, Literal, TypeAlias

import prometheus_client as prometheus
from prometheus_client import Counter, Gauge, Histogram, multiprocess

_LOGGER: Final = logging.getLogger("surerec.serving")
_PACKAGE: Final = Path(__file__).parents[1]


def log(level: int, event: str, /, **fields: Any) -> None:
    """Log an event with its fields.

    Callers give counts, times, names of routes and keys' public ids; never a path that was asked
    for, an address, a user, an item or a title.
    """
    _LOGGER.log(level, event, extra={"fields": fields})


def configure(level: str, style: str) -> None:
    """Send our lines and uvicorn's warnings to stderr: as JSON lines, or as text on a terminal."""
    as_text = style == "text" or (style == "auto" and sys.stderr.isatty())
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(_LogLines(as_text=as_text))
    ours = [(name, level.upper()) for name in ("surerec.serving", "surerec.live")]
    for name, lowest in (*ours, ("uvicorn", "WARNING")):
        logger = logging.getLogger(name)
        logger.handlers = [handler]
        logger.setLevel(lowest)
        logger.propagate = False


def error_fields(error: BaseException) -> dict[str, Any]:
    """Return the type and the place of an error, without its message, which may name a user.

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


class _LogLines(logging.Formatter):
    def __init__(self, *, as_text: bool) -> None:
        super().__init__()
        self._as_text = as_text

    def format(self, record: logging.LogRecord) -> str:
        fields = dict(getattr(record, "fields", {}))
        if record.exc_info and record.exc_info[1] is not None:
            fields |= error_fields(record.exc_info[1])
        level, event = record.levelname.lower(), record.getMessage()
        at = datetime.fromtimestamp(record.created, UTC)
        if self._as_text:
            words = " ".join(f"{name}={value}" for name, value in fields.items())
            return f"{at.astimezone():%H:%M:%S} {level:7} {event}  {words}".rstrip()
        line = {"time": at.isoformat(timespec="milliseconds"), "level": level, "event": event}
        return json.dumps({**line, "process": record.process, **fields}, default=str)


_Mode: TypeAlias = Literal["mostrecent", "livesum", "livemin"]


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=None)


def _gauge(name: str, text: str, *labels: str, of_workers: _Mode = "mostrecent") -> Gauge:
    return Gauge(name, text, labels, multiprocess_mode=of_workers, registry=None)


REQUESTS = _counter("surerec_requests", "Requests answered.", "method", "route", "status")
_TIMES = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0)
SECONDS = Histogram(
    "surerec_request_seconds", "From head to answer.", ["route"], buckets=_TIMES, registry=None
)
REFUSED = _counter("surerec_refused", "Requests refused before they were computed.", "reason")
HELD = _gauge("surerec_work_held", "Requests computed or waiting.", of_workers="livesum")
MODEL_TIME = _gauge(
    "surerec_model_taken_over_timestamp_seconds", "Of the oldest served.", of_workers="livemin"
)
SWAPS = _counter("surerec_model_swaps", "Takeovers of a new model by the whole server.", "result")
RESTARTS = _counter("surerec_worker_restarts", "Workers that ended and were replaced.")
WORKERS = _gauge("surerec_workers_ready", "Workers that answer.", of_workers="livesum")
EVENTS = _counter("surerec_events", "Events sent: judged, or why not; again.", "verdict")
ALERTS = _counter("surerec_alarms", "Alarms that events raised.")
OBSERVED = _gauge("surerec_promise_delivered", "Share of events inside the sets.", "confidence")
JUDGED = _gauge("surerec_promise_judged_events", "Events that the promise was judged on.")
BY_USER_DAY = _gauge(
    "surerec_promise_observed_by_user_day", "With each user and day counted once.", "confidence"
)
USER_DAYS = _gauge("surerec_promise_user_days", "Days of users with a judged event.")
HEAVIEST = _gauge("surerec_heaviest_users_share", "Of the heaviest 1% in this day's events.")


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = prometheus.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prometheus.generate_latest(registry)
