"""A worker process, which the supervisor starts: the application and its event loop."""

from __future__ import annotations

import asyncio
import json
import logging
import os
import socket
import sys
from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import uvicorn
from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from surerec.errors import InputError, StoreError, SurerecError
from surerec.serving._gate import Gate, GuardedProtocol
from surerec.serving._operations import public, router
from surerec.serving._problems import PROBLEM_TYPE, problem_of, problem_response
from surerec.serving._schemas import ProblemDetail
from surerec.serving._service import Service
from surerec.serving._settings import ServerSettings
from surerec.serving._telemetry import configure, error_fields, log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response

_CANNOT_SERVE: Final = 3  # exit code of a worker that cannot load its model
_ACCEPTED_AT_ONCE: Final = 4
_PROBLEM: Final = {
    "description": "Error; `detail` says what is wrong and how to fix it.",
    "content": {PROBLEM_TYPE: {"schema": TypeAdapter(ProblemDetail).json_schema()}},
}
_DESCRIPTION: Final = """Recommendation sets with statistical guarantees.

Users and items are identified by their ids in the data. Requests about users are sent with POST,
so that no id appears in a log. Errors are `application/problem+json`; `detail` says what is wrong
and how to fix it."""


def create_app(service: Service) -> Gate:
    """Return the ASGI application: the API behind the gate.

    Parameters
    ----------
    service : Service
        State of the worker.
    """
    # The version of the API; clients do not see the version of surerec.
    api = FastAPI(
        title="surerec",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would echo the Host header
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
    )
    api.state.service = service
    # For the description only; the gate checks keys.
    key = HTTPBearer(
        scheme_name="key", description="API key created by `surerec keys create`.", auto_error=False
    )
    api.include_router(router, dependencies=[Security(key)] if service.settings.keys else None)
    api.include_router(public)
    api.router.routes.extend(_page_routes())
    for kind in (RequestValidationError, InputError, StoreError, HTTPException, Exception):
        api.add_exception_handler(kind, _answer_error)
    api.openapi()  # built before the first request
    return Gate(api, service)


async def _answer_error(_: Request, error: Any) -> Response:
    if isinstance(error, StoreError):
        log(logging.ERROR, "event store failed", reason=error.reason, **error_fields(error))
    return problem_response(problem_of(error))


def _page_routes() -> list[Route | Mount]:
    # Files of the page, and plotly's JavaScript from its installed wheel.
    ours, plotly = Path(__file__).parent / "static", ("plotly", "package_data")
    files = StaticFiles(directory=ours, packages=[plotly])

    async def page(request: Request) -> Response:
        name = "docs.html" if request.url.path == "/docs" else "index.html"
        return await files.get_response(name, request.scope)

    return [Route("/", page), Route("/docs", page), Mount("/static", files)]


class _SharedSocket(socket.socket):
    """The listening socket of all workers."""

    def listen(self, backlog: int = 0) -> None:
        """Keep the backlog of the supervisor.

        asyncio uses its backlog also as the number of connections that a worker accepts at once,
        which should be small, so that all workers get connections.
        """


def main() -> int:
    """Run a worker process."""
    given = json.loads(sys.argv[1])
    # No progress bars in the log.
    os.environ["TTY_COMPATIBLE"] = "0"
    settings = ServerSettings.model_validate(given["settings"])
    configure(settings.log_level, settings.log_format)
    try:
        service = Service(settings, given["memory"], given["number"])
    except SurerecError as error:
        log(logging.ERROR, "worker cannot serve", reason=str(error))
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
        timeout_keep_alive=settings.keep_alive,  # type: ignore[arg-type]  # a float works
        timeout_graceful_shutdown=settings.shutdown_timeout,  # type: ignore[arg-type]
    )
    listener = _SharedSocket(fileno=given["listener"])
    asyncio.run(service.run(uvicorn.Server(config), listener))
    return 0


if __name__ == "__main__":
    sys.exit(main())
