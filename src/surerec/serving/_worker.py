"""A worker process: one event loop that answers; started by the supervisor."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from functools import partial
from typing import Final

import uvicorn

from surerec.errors import SurerecError
from surerec.serving._app import create_app
from surerec.serving._gate import GuardedProtocol
from surerec.serving._service import Service
from surerec.serving._settings import ServerSettings
from surerec.serving._telemetry import configure, log

_CANNOT_SERVE: Final = 3  # the exit code of a worker that could not load its model
_ACCEPTED_AT_ONCE: Final = 4


class _SharedSocket(socket.socket):
    """The listening socket of all workers."""

    def listen(self, backlog: int = 0) -> None:
        """Leave the queue as the supervisor set it.

        asyncio takes its backlog for two things: the queue's length, and how many connections one
        worker accepts in a row, which should be few, so that the others get some.
        """


def main() -> int:
    """Run a worker; started by the supervisor only."""
    given = json.loads(sys.argv[1])
    # A progress bar is for a person at a terminal, not for a log.
    os.environ["TTY_COMPATIBLE"] = "0"
    settings = ServerSettings.model_validate(given["settings"])
    configure(settings.log_level, settings.log_format)
    try:
        service = Service(settings, given["memory"], given["number"])
    except SurerecError as error:
        log(logging.ERROR, "worker cannot serve", why=str(error))
        return _CANNOT_SERVE
    config = uvicorn.Config(
        create_app(service),
        http=partial(GuardedProtocol, settings),  # type: ignore[arg-type]
        ws="none",
        loop="asyncio",
        lifespan="off",
        log_config=None,
        access_log=False,
        server_header=False,
        proxy_headers=False,
        backlog=_ACCEPTED_AT_ONCE,
        timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # any number will do
        timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]
    )
    listener = _SharedSocket(fileno=given["listener"])
    asyncio.run(service.run(uvicorn.Server(config), listener))
    return 0


if __name__ == "__main__":
    sys.exit(main())
