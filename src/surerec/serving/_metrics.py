"""What Prometheus is told, summed over all workers.

``PROMETHEUS_MULTIPROC_DIR`` must be set before this is imported: prometheus-client then keeps each
process's numbers in files there, so that those of a worker that died still count.
"""

from __future__ import annotations

import os
from typing import Literal, TypeAlias

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

_Mode: TypeAlias = Literal["mostrecent", "livesum", "livemin"]


def _counter(name: str, text: str, *labels: str) -> Counter:
    return Counter(name, text, labels, registry=None)


def _gauge(name: str, text: str, *labels: str, of_workers: _Mode = "mostrecent") -> Gauge:
    return Gauge(name, text, labels, multiprocess_mode=of_workers, registry=None)


REQUESTS = _counter("surerec_requests", "Requests answered.", "method", "route", "status")
SECONDS = Histogram(
    "surerec_request_seconds",
    "Time from a request's head to the end of its answer.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=None,
)
REFUSED = _counter(
    "surerec_refused",
    "Requests refused before they were computed: key, scope, rate, busy, host, origin, size, slow.",
    "reason",
)
HELD = _gauge(
    "surerec_work_held", "Requests being computed or waiting for it.", of_workers="livesum"
)
MODEL_TIME = _gauge(
    "surerec_model_taken_over_timestamp_seconds",
    "When the oldest model that a worker serves was taken over.",
    of_workers="livemin",
)
SWAPS = _counter("surerec_model_swaps", "Takeovers of a new model by the whole server.", "result")
RESTARTS = _counter("surerec_worker_restarts", "Workers that ended and were replaced.")
WORKERS = _gauge("surerec_workers_ready", "Workers that answer.", of_workers="livesum")
EVENTS = _counter(
    "surerec_events", "Events that were taken in: judged, or why not; those sent again.", "verdict"
)
ALARMS = _counter("surerec_alarms", "Alarms that events raised.")
DELIVERED = _gauge(
    "surerec_promise_delivered",
    "The share of judged events inside the sets of a confidence.",
    "confidence",
)
JUDGED = _gauge("surerec_promise_judged_events", "Events that the promise was judged on.")
BY_USER_DAY = _gauge(
    "surerec_promise_observed_by_user_day",
    "The share inside the sets of a confidence, with each user and day counted once.",
    "confidence",
)
USER_DAYS = _gauge("surerec_promise_user_days", "Days of users with a judged event.")
HEAVIEST = _gauge(
    "surerec_heaviest_users_share",
    "The share of this day's judged events from the heaviest 1% of users.",
)


def exposition() -> bytes:
    """Return all metrics in Prometheus' text format."""
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def forget_process(pid: int) -> None:
    """Drop a dead worker's gauges; what it counted stays counted."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]
