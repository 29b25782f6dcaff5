"""HTTP API and web page for a model folder; needs the extra ``serve``."""

from __future__ import annotations

import os
from contextlib import ExitStack
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from surerec.errors import InputError
from surerec.live import LiveFolder
from surerec.serving._keys import KeyFile
from surerec.serving._settings import ServerSettings, read_settings

if TYPE_CHECKING:
    from collections.abc import Callable

__all__ = ["KeyFile", "ServerSettings", "read_settings", "serve"]


def serve(settings: ServerSettings, on_ready: Callable[[str], None] = lambda _: None) -> None:
    """Serve a model until SIGTERM or SIGINT.

    Parameters
    ----------
    settings : ServerSettings
        Settings of the server; see :func:`read_settings`.
    on_ready : callable, optional
        Called with the address of the page when all workers are ready.

    Raises
    ------
    InputError
        If the port is in use, or the model or the API keys cannot be read.
    """
    if os.name != "posix":
        raise InputError("surerec serve needs Linux or macOS. On Windows, use WSL or a container.")
    if settings.keys is not None:
        KeyFile(settings.keys).read()
    with TemporaryDirectory(prefix="surerec-metrics-") as folder, ExitStack() as stack:
        # Imported afterwards, as prometheus-client reads the variable at import.
        os.environ["PROMETHEUS_MULTIPROC_DIR"] = folder
        stack.callback(os.environ.pop, "PROMETHEUS_MULTIPROC_DIR")
        from surerec.serving._supervisor import Supervisor, listen, shared_memory  # noqa: PLC0415
        from surerec.serving._telemetry import configure  # noqa: PLC0415

        configure(settings.log_level, settings.log_format)
        # The lock keeps other servers out; the workers of this one share the events.
        if LiveFolder.is_live(settings.model):
            stack.enter_context(LiveFolder.open(settings.model).locked())
        listener = stack.enter_context(listen(settings.host, settings.port))
        memory = stack.enter_context(shared_memory())
        Supervisor(settings, listener, memory.fileno()).run(on_ready)
