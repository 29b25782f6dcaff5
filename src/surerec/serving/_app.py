"""The application: the operations, the page, what every request passes, and how errors answer."""

from __future__ import annotations

import logging
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from fastapi import FastAPI, Security
from fastapi.exceptions import RequestValidationError
from fastapi.security import HTTPBearer
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware
from starlette.routing import Mount, Route
from starlette.staticfiles import StaticFiles

from surerec.errors import InputError, StoreError
from surerec.serving._gate import Envelope, Gate
from surerec.serving._operations import public, router
from surerec.serving._problems import PROBLEM_TYPE, problem_of, problem_response
from surerec.serving._schemas import ProblemDetail
from surerec.serving._telemetry import error_fields, log

if TYPE_CHECKING:
    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from surerec.serving._service import Service


_PROBLEM: Final = {
    "description": "A problem; its detail is one sentence for the caller.",
    "content": {PROBLEM_TYPE: {"schema": TypeAdapter(ProblemDetail).json_schema()}},
}
_DESCRIPTION: Final = """Recommendation sets with a confidence that you can trust.

Users and items go by their own ids. What is asked about a user is posted, so that no id ends up
in a log. Errors are `application/problem+json` with one sentence in `detail`."""


def create_app(service: Service) -> ASGIApp:
    """Return the ASGI application: the operations, and around them what every request passes.

    Parameters
    ----------
    service : Service
        What the operations answer with.
    """
    # The version is the API's: a client need not know which surerec runs here.
    api = FastAPI(
        title="surerec",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat whatever Host the request had
        responses={"4XX": _PROBLEM, "5XX": _PROBLEM},
    )
    api.state.service = service
    settings = service.settings
    # Described here, checked by the gate.
    key = HTTPBearer(
        scheme_name="key", description="Made by `surerec keys create`.", auto_error=False
    )
    api.include_router(router, dependencies=[Security(key)] if settings.keys else None)
    api.include_router(public)
    api.router.routes.extend(_page_routes())
    for kind in (RequestValidationError, InputError, StoreError, HTTPException, Exception):
        api.add_exception_handler(kind, _answer_error)
    api.openapi()  # made before the first request asks for it
    app: ASGIApp = Gate(api, service)
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "Surerec-Model", "X-Request-ID"],
        )
    return Envelope(app)


async def _answer_error(_: Request, error: Any) -> Response:
    if isinstance(error, StoreError):
        log(logging.ERROR, "event store failed", reason=error.reason, **error_fields(error))
    return problem_response(problem_of(error))


def _page_routes() -> list[Route | Mount]:
    # Our files, and plotly's JavaScript from its installed wheel.
    ours, plotly = Path(__file__).parent / "static", ("plotly", "package_data")
    files = StaticFiles(directory=ours, packages=[plotly])

    async def page(request: Request) -> Response:
        name = "docs.html" if request.url.path == "/docs" else "index.html"
        return await files.get_response(name, request.scope)

    return [Route("/", page), Route("/docs", page), Mount("/static", files)]
