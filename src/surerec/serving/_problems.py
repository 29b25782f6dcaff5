"""Errors over HTTP: problem+json (RFC 9457) with one clear sentence."""

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
    "json_invalid": "The body is not JSON",
    "missing": "{field} is missing",
    "extra_forbidden": "There is no field {field}",
    "too_short": "{field} is empty: it needs at least one item",
    "too_long": "{field} has too many items: at most {max_length} are taken",
}

_NOT_HTTP: Final = {
    404: "There is nothing at this address; /docs lists what there is.",
    405: "This address does not know that method; /docs lists what it knows.",
    400: "The body cannot be read as JSON.",
}
_OF_FIELDS = {"missing", "extra_forbidden"}  # of which the last part of a place is a field
_OF_EVENTS = {"user", "item", "time", "id"}  # which no arm of a union is called


class Problem(HTTPException):
    """A request that cannot be answered, and why.

    Parameters
    ----------
    status_code : int
        The HTTP status.
    detail : str
        One sentence for the client.
    headers : mapping, optional
        Further headers of the answer, such as ``Retry-After``.

    Examples
    --------
    >>> problem_response(Problem(404, "There is no such user.")).body
    b'{"type":"about:blank","title":"Not Found","status":404,"detail":"There is no such user."}'
    """


SORRY: Final = Problem(500, "Something went wrong here; the log has this request's id.")
"""What a client is told of an unexpected error."""


def problem_response(problem: Problem) -> Response:
    """Return the HTTP response of a problem."""
    status, title = problem.status_code, HTTPStatus(problem.status_code).phrase
    about = {"type": "about:blank", "title": title, "status": status, "detail": problem.detail}
    return JSONResponse(about, status, problem.headers, PROBLEM_TYPE)


def _unknown_id(error: errors.UnknownIdError) -> str:
    which = f"item {_id(error.value)}" if error.noun == "item" else f"such {error.noun}"
    return f"There is no {which}."


def _id(value: object) -> str:
    return repr(str(value)[:_ID_SHOWN])


REFUSALS: dict[type[errors.InputError], tuple[int, Callable[[Any], str]]] = {
    errors.UnknownIdError: (404, _unknown_id),
    errors.UnknownHistoryError: (404, lambda _: "None of the items of the history is known."),
    errors.UnknownMembersError: (404, str),
    errors.AlreadyConsumedError: (
        409,
        lambda error: f"Item {_id(error.item)} is in the known profile.",
    ),
    errors.NoUsersError: (409, lambda _: "This model holds no users; post a history."),
    errors.NoConfidenceError: (
        409,
        lambda _: "This recommender has no confidence and no p-values.",
    ),
    errors.NotSupportedError: (409, str),
    errors.RepeatedMemberError: (409, str),
}
"""The status and the sentence for each error of the library.

But for what is not offered and members of groups, which name nobody else, the sentences are made of
what the error is about, never of its own sentence, which may name near ids: those are of
other users.
"""


def problem_of(error: Exception) -> Problem:
    """Return the problem that an error is to the client.

    Examples
    --------
    >>> problem = problem_of(errors.UnknownIdError("item", "jaws", lambda: ["Jaws"]))
    >>> problem.status_code, problem.detail
    (404, "There is no item 'jaws'.")
    """
    match error:
        case Problem():
            return error
        case RequestValidationError():
            wrong = error.errors()
            return Problem(400 if wrong[0]["type"] == "json_invalid" else 422, in_words(wrong))
        case errors.InputError():
            kinds = [kind for kind in REFUSALS if isinstance(error, kind)]
            status, sentence = REFUSALS[kinds[0]] if kinds else (422, str)
            return Problem(status, sentence(error))
        case errors.StoreError():
            detail = f"Not acknowledged: the event store fails ({error.reason}). Send it again."
            return Problem(503, detail, headers={"Retry-After": "5"})
        case HTTPException():
            detail = _NOT_HTTP.get(error.status_code, "This request cannot be answered.")
            return Problem(error.status_code, detail, headers=error.headers)
    # Starlette would answer in plain text; it raises the error again for the log.
    return SORRY


def in_words(wrong: Sequence[Any]) -> str:
    """Return one sentence on what is wrong with a request, from what pydantic found.

    Parameters
    ----------
    wrong : sequence of mapping
        ``type``, ``loc``, ``msg``, ``input`` and perhaps ``ctx``.

    Examples
    --------
    >>> found = {"type": "less_than", "loc": ("body", "confidence"), "input": 90,
    ...          "msg": "Input should be less than 1"}
    >>> in_words([found])
    'confidence is 90: it must be a number between 0 and 1; did you mean 0.9?'
    >>> in_words([{"type": "missing", "loc": ("body", "events", 2, "item"), "input": {}}])
    'events[2].item is missing.'
    """
    # A union reports each of its arms; the fields are what a client can fix.
    fields = list(dict.fromkeys(_field(error) for error in wrong))
    first = wrong[0]
    more = f" (and {len(fields) - 1} more)" if len(fields) > 1 else ""
    sentence = _sentence(first, fields[0])
    return sentence if sentence.endswith("?") else f"{sentence}{more}."


def _field(error: Mapping[str, Any]) -> str:
    """Name a place in a request: ``history[3]``; pydantic's names of union arms are left out."""
    location = error["loc"]
    parts = location[1:] if location and location[0] in {"body", "query"} else location
    name = ""
    for place, part in enumerate(parts):
        if isinstance(part, int):
            name += f"[{part}]"
        elif not name:
            name = str(part)
        elif part in _OF_EVENTS or (error["type"] in _OF_FIELDS and place == len(parts) - 1):
            name += f".{part}"
    return name


def _sentence(error: Mapping[str, Any], field: str) -> str:
    kind, given, context = error["type"], error.get("input"), error.get("ctx", {})
    if kind == "missing" and not field:
        return "The body is missing; send a JSON object"
    if kind in _SENTENCES:
        return _SENTENCES[kind].format(field=field or "The body", **context)
    if field in {"confidence", "significance"}:
        hint = ""
        if isinstance(given, (int, float)) and 1 < given < 100:  # noqa: PLR2004
            hint = f"; did you mean {given / 100:g}?"
        return f"{field} is {shown(given)}: it must be a number between 0 and 1{hint}"
    message = str(error["msg"])
    return f"{field or 'The body'} is {shown(given)}: {message[:1].lower()}{message[1:]}"
