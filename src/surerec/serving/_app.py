"""The application: the operations, what every request passes, and the OpenAPI description."""

from __future__ import annotations

import logging
from typing import TYPE_CHECKING, Any

from fastapi import FastAPI
from fastapi.exceptions import RequestValidationError
from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter
from starlette.exceptions import HTTPException
from starlette.middleware.cors import CORSMiddleware

from surerec.errors import InputError, StoreError
from surerec.serving._guard import Guard, is_public
from surerec.serving._logs import error_fields, log
from surerec.serving._middleware import Answering, BodyLimit, Envelope
from surerec.serving._operations import router
from surerec.serving._page import page_routes
from surerec.serving._problems import (
    PROBLEM_TYPE,
    SORRY,
    Problem,
    in_words,
    problem_of,
    problem_of_store,
    problem_response,
)
from surerec.serving._responses import ProblemDetail

if TYPE_CHECKING:
    from collections.abc import Callable

    from starlette.requests import Request
    from starlette.responses import Response
    from starlette.types import ASGIApp

    from surerec.serving._service import Service


_OF_BODY = {
    "400": "The body cannot be read.",
    "404": "An unknown user, item or recommender.",
    "408": "The body came too slowly.",
    "409": "The question does not fit this person, item or recommender.",
    "413": "The body is too large.",
    "415": "The body is not declared as JSON.",
    "422": "Something in the request cannot be used.",
    "503": "Too busy, or stopping.",
}
_OF_KEYS = {
    "401": "No API key, or not a valid one.",
    "403": "The key lacks the scope, or another site's page asks.",
    "429": "Too many requests with this key.",
}
_OF_ALL = {"421": "Not the name of this server.", "500": "A mistake of ours."}
_DESCRIPTION = """Recommendation sets with a confidence that you can trust.

Users and items go by their own ids. What is asked about a person is posted, so that no id ends up
in a log. Errors are `application/problem+json` with one sentence in `detail`."""


def create_app(service: Service) -> ASGIApp:
    """Give the ASGI application: the operations, and around them what every request passes.

    Parameters
    ----------
    service : Service
        The parts of this worker.
    """
    # The version is the API's: which surerec runs here is nobody's business.
    api = FastAPI(
        title="surerec",
        version="1",
        description=_DESCRIPTION,
        docs_url=None,
        redoc_url=None,
        redirect_slashes=False,  # a redirect would repeat whatever Host the request had
    )
    api.state.service = service
    api.include_router(router)
    api.router.routes.extend(page_routes())
    for kind in (Problem, RequestValidationError, InputError, StoreError, HTTPException, Exception):
        api.add_exception_handler(kind, _answer_error)
    api.openapi = _described(api, needs_keys=service.settings.needs_keys)  # type: ignore[method-assign]
    api.openapi()  # made before the first request asks for it
    settings = service.settings
    app: ASGIApp = BodyLimit(api, settings.max_body, settings.receive_timeout)
    app = Answering(Guard(app, service))
    if settings.cors_origins:
        app = CORSMiddleware(
            app,
            allow_origins=list(settings.cors_origins),
            allow_methods=["GET", "POST"],
            allow_headers=["Authorization", "Content-Type", "X-Request-ID"],
            expose_headers=["Retry-After", "Surerec-Model", "X-Request-ID"],
        )
    return Envelope(app)


_NOT_HTTP = {
    404: "There is nothing at this address; /docs lists what there is.",
    405: "This address does not know that method; /docs lists what it knows.",
    400: "The body cannot be read as JSON.",
}


async def _answer_error(_: Request, error: Any) -> Response:
    return problem_response(_problem_of(error))


def _problem_of(error: Any) -> Problem:
    match error:
        case Problem():
            return error
        case RequestValidationError():
            errors = error.errors()
            status = 400 if errors[0]["type"] == "json_invalid" else 422
            return Problem(status, in_words(errors))
        case InputError():
            return problem_of(error)
        case StoreError():
            log(logging.ERROR, "event store failed", reason=error.reason, **error_fields(error))
            return problem_of_store(error)
        case HTTPException():
            detail = _NOT_HTTP.get(error.status_code, "This request cannot be answered.")
            return Problem(error.status_code, detail, headers=error.headers)
    # Starlette would answer in plain text; it raises the error again for the log.
    return SORRY


def _described(app: FastAPI, *, needs_keys: bool) -> Callable[[], dict[str, Any]]:
    """Return the function that FastAPI calls for the OpenAPI description, which is made once."""

    def openapi() -> dict[str, Any]:
        if not app.openapi_schema:
            schema = get_openapi(
                title=app.title,
                version=app.version,
                description=app.description,
                routes=app.routes,
            )
            _add_problems(schema)
            if needs_keys:
                _add_keys(schema)
            app.openapi_schema = schema
        return app.openapi_schema

    return openapi


def _add_problems(schema: dict[str, Any]) -> None:
    schemas = schema["components"]["schemas"]
    schemas["ProblemDetail"] = TypeAdapter(ProblemDetail).json_schema()
    for unused in ("HTTPValidationError", "ValidationError"):
        schemas.pop(unused, None)
    reference = {"schema": {"$ref": "#/components/schemas/ProblemDetail"}}
    for path, operations in schema["paths"].items():
        for method, operation in operations.items():
            told = dict(_OF_ALL)
            if not is_public(path):
                told |= _OF_KEYS
            if method == "post" or "parameters" in operation:
                told |= _OF_BODY
            elif path == "/readyz":
                told["503"] = _OF_BODY["503"]
            elif path == "/v1/live":
                told |= {"409": "This model is not live.", "503": _OF_BODY["503"]}
            for status, words in told.items():
                operation["responses"][status] = {
                    "description": words,
                    "content": {PROBLEM_TYPE: reference},
                }


def _add_keys(schema: dict[str, Any]) -> None:
    schema["components"]["securitySchemes"] = {
        "key": {"type": "http", "scheme": "bearer", "description": "Made by `surerec keys create`."}
    }
    for path, operations in schema["paths"].items():
        if not is_public(path):
            for operation in operations.values():
                operation["security"] = [{"key": []}]
