"""An HTTP API and a page over a model folder; needs the extra ``serve``."""

from __future__ import annotations

import os
from contextlib import contextmanager, nullcontext
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from surerec.errors import InputError
from surerec.live import LiveFolder
from surerec.serving._keys import ApiKey, KeyFile
from surerec.serving._settings import ServerSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

__all__ = ["ApiKey", "KeyFile", "ServerSettings", "read_settings", "serve"]


@contextmanager
def _folder_in_environment(name: str) -> Iterator[None]:
    """Name a temporary folder in the environment as long as it exists."""
    before = os.environ.get(name)
    with TemporaryDirectory(prefix="surerec-metrics-") as folder:
        os.environ[name] = folder
        try:
            yield
        finally:
            del os.environ[name]
            if before is not None:
                os.environ[name] = before


def serve(settings: ServerSettings, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve a model until SIGTERM or SIGINT.

    Parameters
    ----------
    settings : ServerSettings
        How; see :func:`read_settings`.
    on_ready : callable, optional
        Called with the page's address when all workers answer.

    Raises
    ------
    InputError
        If the port is taken, or the model or the keys cannot be read.
    """
    if os.name != "posix":
        raise InputError("surerec serve needs Linux or macOS; on Windows use WSL or a container.")
    # prometheus-client looks at this when it is imported, and so below, not above.
    with _folder_in_environment("PROMETHEUS_MULTIPROC_DIR"):
        from surerec.serving._supervisor import Supervisor, listen, shared_memory  # noqa: PLC0415
        from surerec.serving._telemetry import configure  # noqa: PLC0415

        if settings.keys is not None:
            KeyFile(settings.keys).read()
        configure(settings.log_level, settings.log_format)
        # A live model's events are one server's: its workers share them, and nobody else does.
        live = LiveFolder.is_one(settings.model)
        with (
            LiveFolder.open(settings.model).held() if live else nullcontext(),
            listen(settings.host, settings.port) as listener,
            shared_memory() as memory,
        ):
            Supervisor(settings, listener, memory.fileno(), on_ready).run()
