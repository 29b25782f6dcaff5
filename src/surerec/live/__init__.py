"""A model that ingests events, keeps its guarantee as the world moves, and loses nothing."""

from surerec.live._events import Event, FutureTimeError
from surerec.live._ledger import Ledger, LiveTerms, Window
from surerec.live._live import Ingestion, Live, Receipt, Status
from surerec.live._replay import (
    Playing,
    Replayed,
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
    "Playing",
    "PostgresStore",
    "Receipt",
    "Replayed",
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
