"""What the operations need, in one place."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable

    from surerec.serving._keys import Keyring
    from surerec.serving._models import ModelHolder
    from surerec.serving._rates import RateLimits
    from surerec.serving._settings import Settings
    from surerec.serving._work import WorkQueue


@dataclass
class Service:
    """A worker's parts."""

    settings: Settings
    models: ModelHolder
    work: WorkQueue
    reload: Callable[[], Awaitable[dict[str, Any]]]
    """Asks for a takeover by all workers; gives what became of it."""
    keyring: Keyring | None = None
    rates: RateLimits | None = None
    is_stopping: Callable[[], bool] = field(default=lambda: False)
