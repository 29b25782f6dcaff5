"""Live models: they ingest events, track their own coverage and adapt their thresholds online."""

from surerec.live._events import Event, FutureTimeError
from surerec.live._ledger import Ledger, LiveTerms, Window
from surerec.live._live import Ingestion, Live, Receipt, Status
from surerec.live._replay import (
    ReplayOptions,
    ReplayResult,
    check_replay_target,
    replay,
    summary_of,
    windows_of,
    write_replay,
)
from surerec.live._state import LiveFolder
from surerec.live._store import PostgresStore, SqliteStore, StoredEvent

__all__ = [
    "Event",
    "FutureTimeError",
    "Ingestion",
    "Ledger",
    "Live",
    "LiveFolder",
    "LiveTerms",
    "PostgresStore",
    "Receipt",
    "ReplayOptions",
    "ReplayResult",
    "SqliteStore",
    "Status",
    "StoredEvent",
    "Window",
    "check_replay_target",
    "replay",
    "summary_of",
    "windows_of",
    "write_replay",
]
