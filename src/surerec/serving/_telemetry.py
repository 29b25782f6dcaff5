"""Structured logs without personal data, and Prometheus metrics of all workers.

``PROMETHEUS_MULTIPROC_DIR`` must be set before the import. prometheus-client then stores the
numbers of each process in files, so that those of dead workers still count.
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

    Fields are counts, times, route names and public key ids; never request paths, addresses, user
    ids, item ids or titles.
    """
    _LOGGER.log(level, event, extra={"fields": fields})


def configure(level: str, style: str) -> None:
    """Log to stderr, as JSON lines or as text on a terminal; include uvicorn's warnings."""
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
    """Return type and location of an error, without its message, which may contain a user id.

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
    "surerec_request_seconds", "Duration of requests.", ["route"], buckets=_TIMES, registry=None
)
REFUSED = _counter("surerec_refused", "Requests refused before any computation.", "reason")
HELD = _gauge("surerec_work_held", "Requests running or waiting.", of_workers="livesum")
MODEL_TIME = _gauge(
    "surerec_model_loaded_timestamp_seconds", "Load time of the oldest model.", of_workers="livemin"
)
SWAPS = _counter("surerec_model_swaps", "Replacements of the model in all workers.", "result")
RESTARTS = _counter("surerec_worker_restarts", "Workers that were restarted.")
WORKERS = _gauge("surerec_workers_ready", "Workers that are ready.", of_workers="livesum")
EVENTS = _counter("surerec_events", "Events by outcome.", "outcome")
ALERTS = _counter("surerec_alerts", "Alerts raised by events.")
OBSERVED = _gauge("surerec_live_observed", "Share of events inside the sets.", "confidence")
EVALUATED = _gauge("surerec_live_evaluated_events", "Evaluated events.")
BY_USER_DAY = _gauge(
    "surerec_live_observed_by_user_day", "Each user and day counts once.", "confidence"
)
USER_DAYS = _gauge("surerec_live_user_days", "User days with an evaluated event.")
HEAVIEST = _gauge("surerec_live_heaviest_users_share", "Share of the heaviest 1%.")


def exposition() -> bytes:
    """Return all metrics in the text format of Prometheus."""
    registry = prometheus.CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return prometheus.generate_latest(registry)
