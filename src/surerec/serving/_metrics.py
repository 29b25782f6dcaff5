"""What Prometheus is told, summed over all workers.

``PROMETHEUS_MULTIPROC_DIR`` must be set before this is imported: prometheus-client then keeps each
process's numbers in files there, so that those of a worker that died still count.
"""

from __future__ import annotations

import os

from prometheus_client import (
    CollectorRegistry,
    Counter,
    Gauge,
    Histogram,
    generate_latest,
    multiprocess,
)

REQUESTS = Counter(
    "surerec_requests", "Requests answered.", ["method", "route", "status"], registry=None
)
SECONDS = Histogram(
    "surerec_request_seconds",
    "Time from a request's head to the end of its answer.",
    ["route"],
    buckets=(0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0),
    registry=None,
)
REFUSED = Counter(
    "surerec_refused",
    "Requests refused before they were computed: key, scope, rate, busy, host, origin, size, slow.",
    ["reason"],
    registry=None,
)
HELD = Gauge(
    "surerec_work_held",
    "Requests being computed or waiting for it.",
    multiprocess_mode="livesum",
    registry=None,
)
MODEL_TIME = Gauge(
    "surerec_model_taken_over_timestamp_seconds",
    "When the oldest model that a worker serves was taken over.",
    multiprocess_mode="livemin",
    registry=None,
)
SWAPS = Counter(
    "surerec_model_swaps",
    "Takeovers of a new model by the whole server.",
    ["result"],
    registry=None,
)
RESTARTS = Counter(
    "surerec_worker_restarts", "Workers that ended and were replaced.", registry=None
)
WORKERS = Gauge(
    "surerec_workers_ready", "Workers that answer.", multiprocess_mode="livesum", registry=None
)
EVENTS = Counter(
    "surerec_events",
    "Events that were taken in: judged, or why not; those sent again.",
    ["verdict"],
    registry=None,
)
ALARMS = Counter("surerec_alarms", "Alarms that events raised.", registry=None)
DELIVERED = Gauge(
    "surerec_promise_delivered",
    "The share of judged events inside the sets of a confidence.",
    ["confidence"],
    multiprocess_mode="mostrecent",
    registry=None,
)
JUDGED = Gauge(
    "surerec_promise_judged_events",
    "Events that the promise was judged on.",
    multiprocess_mode="mostrecent",
    registry=None,
)

BY_USER_DAY = Gauge(
    "surerec_promise_observed_by_user_day",
    "The share inside the sets of a confidence, with each user and day counted once.",
    ["confidence"],
    multiprocess_mode="mostrecent",
    registry=None,
)
USER_DAYS = Gauge(
    "surerec_promise_user_days",
    "Days of users with a judged event.",
    multiprocess_mode="mostrecent",
    registry=None,
)
HEAVIEST = Gauge(
    "surerec_heaviest_users_share",
    "The share of this day's judged events from the heaviest 1% of users.",
    multiprocess_mode="mostrecent",
    registry=None,
)


def exposition() -> bytes:
    """Give all numbers in Prometheus' text format."""
    registry = CollectorRegistry()
    multiprocess.MultiProcessCollector(registry)  # type: ignore[no-untyped-call]
    return generate_latest(registry)


def forget_process(pid: int) -> None:
    """Drop a dead worker's gauges; what it counted stays counted."""
    if os.environ.get("PROMETHEUS_MULTIPROC_DIR"):
        multiprocess.mark_process_dead(pid)  # type: ignore[no-untyped-call]
