"""A model that takes events in, keeps its promise as the world moves, and loses nothing."""

from surerec.live._events import Event, FutureTimeError
from surerec.live._folder import LiveFolder
from surerec.live._ledger import Ledger, Terms, Window
from surerec.live._live import Live
from surerec.live._postgres import PostgresStore
from surerec.live._replay import MODELS, Playing, Replayed, replay
from surerec.live._replay_report import (
    check_replay_target,
    draw_replay,
    summary_of,
    windows_of,
    write_replay,
)
from surerec.live._reports import Observed, Receipt, Status
from surerec.live._sqlite import SqliteStore
from surerec.live._store import Store, StoredEvent, Transaction

__all__ = [
    "MODELS",
    "Event",
    "FutureTimeError",
    "Ledger",
    "Live",
    "LiveFolder",
    "Observed",
    "Playing",
    "PostgresStore",
    "Receipt",
    "Replayed",
    "SqliteStore",
    "Status",
    "Store",
    "StoredEvent",
    "Terms",
    "Transaction",
    "Window",
    "check_replay_target",
    "draw_replay",
    "replay",
    "summary_of",
    "windows_of",
    "write_replay",
]
