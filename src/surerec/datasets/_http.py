"""HTTP and HTTPS through the standard library, every failure sorted into three kinds."""

from __future__ import annotations

import socket
import ssl
from http import HTTPStatus
from http.client import HTTPException, HTTPMessage, HTTPResponse
from typing import TYPE_CHECKING
from urllib import request
from urllib.error import HTTPError, URLError

from surerec._version import __version__
from surerec.errors import FetchError

if TYPE_CHECKING:
    from collections.abc import Iterator, Mapping


_CHUNK = 1 << 16
_WORTH_ANOTHER_TRY = {HTTPStatus.REQUEST_TIMEOUT, HTTPStatus.TOO_MANY_REQUESTS}


class SourceError(FetchError):
    """A source that cannot give the data: `reason` in a few words, the whole as a sentence."""

    def __init__(self, reason: str, sentence: str) -> None:
        super().__init__(sentence)
        self.reason = reason


class Interrupted(Exception):  # noqa: N818 -- an event within a download, not yet an error
    """A try that failed, and of which another may succeed."""

    def __init__(self, reason: str, *, unlikely: bool = False, start_over: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.unlikely = unlikely
        self.start_over = start_over


def visit(url: str, headers: Mapping[str, str], timeout: float) -> HTTPResponse:
    """Ask for `url`; raise `Interrupted` where a second try may help, else `SourceError`."""
    if not url.lower().startswith(("http://", "https://")):
        raise SourceError("not http", f"{url} is neither http nor https; give another address.")
    agent = {"User-Agent": f"surerec/{__version__}", "Accept-Encoding": "identity"}
    try:
        asked = request.Request(url, headers=agent | dict(headers))  # noqa: S310 -- checked above
        response: HTTPResponse = _opener().open(asked, timeout=timeout)
    except HTTPError as error:
        error.close()
        raise _refusal(url, error.code) from error
    except URLError as error:
        raise _no_connection(url, error.reason, timeout) from error
    except (OSError, HTTPException) as error:
        raise Interrupted(_words(error, timeout)) from error
    except ValueError as error:
        raise SourceError("not an address", f"{url} is not a usable address.") from error
    return response


def receive(response: HTTPResponse, timeout: float) -> Iterator[bytes]:
    """Give the body as it comes in; raise `Interrupted` when it is cut or stalls."""
    while True:
        try:
            chunk = response.read1(_CHUNK)
        except (OSError, HTTPException, ValueError) as error:
            raise Interrupted(_words(error, timeout)) from error
        if not chunk:
            return
        yield chunk


def validator(headers: HTTPMessage) -> str | None:
    """Give what tells this version of a file from another: a strong ETag, else its date."""
    etag = headers.get("ETag", "")
    return etag if etag.startswith('"') else headers.get("Last-Modified")


def _opener() -> request.OpenerDirector:
    """Follow redirects and proxies, but open no ftp, file or data address, as urlopen would."""
    opener = request.OpenerDirector()
    for handler in (
        request.ProxyHandler(),
        request.UnknownHandler(),
        request.HTTPHandler(),
        request.HTTPSHandler(),
        request.HTTPDefaultErrorHandler(),
        request.HTTPRedirectHandler(),
        request.HTTPErrorProcessor(),
    ):
        opener.add_handler(handler)
    return opener


def _refusal(url: str, code: int) -> Interrupted | SourceError:
    reason = f"HTTP {code}"
    if code == HTTPStatus.REQUESTED_RANGE_NOT_SATISFIABLE:
        return Interrupted(reason, start_over=True)
    if code >= HTTPStatus.INTERNAL_SERVER_ERROR or code in _WORTH_ANOTHER_TRY:
        return Interrupted(reason)
    return SourceError(reason, f"{url} was refused with {reason}; look whether the file has moved.")


def _no_connection(url: str, error: str | BaseException, timeout: float) -> Exception:
    reason = _words(error, timeout)
    if isinstance(error, ssl.SSLCertVerificationError):
        return SourceError(
            reason, f"{url} could not be trusted ({reason}); look at this machine's certificates."
        )
    # A cut may not come again; a name that is not known, or a port that is closed, stays so.
    passing = isinstance(error, (ConnectionResetError, ConnectionAbortedError, BrokenPipeError))
    return Interrupted(reason, unlikely=not passing)


def _words(error: str | BaseException, timeout: float) -> str:
    """Say in a few words what went wrong on the way."""
    known: dict[type[BaseException] | tuple[type[BaseException], ...], str] = {
        socket.gaierror: "name not resolved",
        TimeoutError: f"no answer for {timeout:g} s",
        ConnectionRefusedError: "connection refused",
        ssl.SSLCertVerificationError: "certificate not accepted",
        (ConnectionError, HTTPException, ValueError): "connection cut",
    }
    for kind, words in known.items():
        if isinstance(error, kind):
            return words
    return (getattr(error, "strerror", None) or str(error)).lower()
