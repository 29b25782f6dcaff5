"""The API's description: FastAPI's, with our errors and keys in it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from fastapi.openapi.utils import get_openapi
from pydantic import TypeAdapter

from surerec.serving._guard import is_public
from surerec.serving._problems import PROBLEM_TYPE
from surerec.serving._responses import ProblemDetail

if TYPE_CHECKING:
    from collections.abc import Callable

    from fastapi import FastAPI


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


def describe(app: FastAPI, *, needs_keys: bool) -> Callable[[], dict[str, Any]]:
    """Give the function that FastAPI asks for the OpenAPI description, which is made once."""

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
