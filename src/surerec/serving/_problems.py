"""HTTP errors as problem+json (RFC 9457): what is wrong and how to fix it."""

from __future__ import annotations

from http import HTTPStatus
from typing import TYPE_CHECKING, Any, Final

from fastapi.exceptions import RequestValidationError
from starlette.exceptions import HTTPException
from starlette.responses import JSONResponse, Response

from surerec import errors
from surerec._words import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping, Sequence


PROBLEM_TYPE = "application/problem+json"
_ID_SHOWN = 80
_SENTENCES = {
    "value_error": "{error}",
    "json_invalid": "The body is not valid JSON",
    "missing": "{field} is missing",
    "extra_forbidden": "There is no field {field}",
    "too_short": "{field} is too short. Send at least {min_length}",
    "too_long": "{field} is too long. Send at most {max_length}",
}

_NOT_HTTP: Final = {
    404: "This path does not exist. See /docs for all paths.",
    405: "This path does not support this method. See /docs for its methods.",
    400: "The body cannot be parsed. Send valid JSON.",
}
_FIELD_ERRORS = {"missing", "extra_forbidden"}  # whose location ends with a field name
_EVENT_FIELDS = {"user", "item", "time", "id"}  # never names of union members


class Problem(HTTPException):
    """An error response.

    Parameters
    ----------
    status_code : int
        The HTTP status.
    detail : str
        What is wrong, and how to fix it.
    headers : mapping, optional
        Further response headers, such as ``Retry-After``.

    Examples
    --------
    >>> problem_response(Problem(404, "This path does not exist.")).body
    b'{"type":"about:blank","title":"Not Found","status":404,"detail":"This path does not exist."}'
    """


INTERNAL_ERROR: Final = Problem(500, "Internal error. Report the X-Request-ID of this response.")
"""Response to an unexpected error."""


def problem_response(problem: Problem) -> Response:
    """Return the HTTP response of a problem."""
    status, title = problem.status_code, HTTPStatus(problem.status_code).phrase
    about = {"type": "about:blank", "title": title, "status": status, "detail": problem.detail}
    return JSONResponse(about, status, problem.headers, PROBLEM_TYPE)


def _unknown_id(error: errors.UnknownIdError) -> str:
    which = f"item {_id(error.value)}" if error.noun == "item" else f"such {error.noun}"
    return f"There is no {which}. Send an id of the data."


def _id(value: object) -> str:
    return repr(str(value)[:_ID_SHOWN])


REFUSALS: dict[type[errors.InputError], tuple[int, Callable[[Any], str]]] = {
    errors.UnknownIdError: (404, _unknown_id),
    errors.UnknownHistoryError: (404, lambda _: "No item of history is known. Send known items."),
    errors.UnknownMembersError: (404, str),
    errors.AlreadyConsumedError: (
        409,
        lambda error: f"Item {_id(error.item)} is in the history. Send another item.",
    ),
    errors.NoUsersError: (409, lambda _: "This model has no users. Send history instead of user."),
    errors.NoConfidenceError: (
        409,
        lambda _: "This recommender has no confidence and no p-values. Send k, or use another one.",
    ),
    errors.NotSupportedError: (409, str),
    errors.RepeatedMemberError: (409, str),
}
"""HTTP status and detail for each error of the library.

Most details are not the error's own message, because that may suggest similar ids of other users.
"""


def problem_of(error: Exception) -> Problem:
    """Return the error response for an exception.

    Examples
    --------
    >>> problem = problem_of(errors.UnknownIdError("item", "jaws", lambda: ["Jaws"]))
    >>> problem.status_code, problem.detail
    (404, "There is no item 'jaws'. Send an id of the data.")
    """
    match error:
        case Problem():
            return error
        case RequestValidationError():
            wrong = error.errors()
            status = 400 if wrong[0]["type"] == "json_invalid" else 422
            return Problem(status, validation_message(wrong))
        case errors.InputError():
            kinds = [kind for kind in REFUSALS if isinstance(error, kind)]
            status, sentence = REFUSALS[kinds[0]] if kinds else (422, str)
            return Problem(status, sentence(error))
        case errors.StoreError():
            detail = f"The event store failed ({error.reason}); nothing was stored. Send it again."
            return Problem(503, detail, headers={"Retry-After": "5"})
        case HTTPException():
            detail = _NOT_HTTP.get(error.status_code, "This request cannot be answered. See /docs.")
            return Problem(error.status_code, detail, headers=error.headers)
    # Starlette would answer in plain text; it raises the error again for the log.
    return INTERNAL_ERROR


def validation_message(wrong: Sequence[Any]) -> str:
    """Return the detail for the validation errors of a request.

    Parameters
    ----------
    wrong : sequence of mapping
        Errors of pydantic: ``type``, ``loc``, ``msg``, ``input`` and optionally ``ctx``.

    Examples
    --------
    >>> found = {"type": "less_than", "loc": ("body", "confidence"), "input": 90,
    ...          "msg": "Input should be less than 1"}
    >>> validation_message([found])
    'confidence is 90. Use a number between 0 and 1; did you mean 0.9?'
    >>> validation_message([{"type": "missing", "loc": ("body", "events", 2, "item"), "input": {}}])
    'events[2].item is missing.'
    """
    # A union reports an error for each of its members; a client can fix the field.
    fields = list(dict.fromkeys(_field(error) for error in wrong))
    first = wrong[0]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    sentence = _sentence(first, fields[0])
    return sentence if sentence.endswith("?") else f"{sentence}{more}."


def _field(error: Mapping[str, Any]) -> str:
    """Return a location as ``history[3]``, without pydantic's names of union members."""
    location = error["loc"]
    parts = location[1:] if location and location[0] in {"body", "query"} else location
    name = ""
    for place, part in enumerate(parts):
        if isinstance(part, int):
            name += f"[{part}]"
        elif not name:
            name = str(part)
        elif part in _EVENT_FIELDS or (error["type"] in _FIELD_ERRORS and place == len(parts) - 1):
            name += f".{part}"
    return name


def _sentence(error: Mapping[str, Any], field: str) -> str:
    kind, given, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "missing" and not field:
        return "The body is missing. Send a JSON object"
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(field=field or "The body", **context)
    if field in {"confidence", "significance"}:
        hint = ""
        if isinstance(given, (int, float)) and 1 < given < 100:  # noqa: PLR2004
            hint = f"; did you mean {given / 100:g}?"
        return f"{field} is {shown(given)}. Use a number between 0 and 1{hint}"
    message = str(error["msg"])
    return f"{field or 'The body'} is {shown(given)}: {message[:1].lower()}{message[1:]}"
