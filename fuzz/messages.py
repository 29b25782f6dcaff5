"""Random requests: from the OpenAPI description, with invalid values, and raw bytes."""

from __future__ import annotations

import json
import string
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from fuzz.models import HISTORY, USERS

if TYPE_CHECKING:
    import random
    from collections.abc import Callable, Iterator

_LONG: Final = 200_000
_FIELDS: Final[dict[str, Any]] = {
    "user": 7,
    "users": USERS,
    "history": HISTORY,
    "confidence": 0.8,
    "significance": 0.2,
    "k": 5,
    "item": 17,
    "items": [17, 20],
    "recommender": "icrs",
    "exclude": [1],
    "limit": 10,
    "q": "film",
}
_VALUES: Final[tuple[Any, ...]] = (
    None, True, 0, -1, 1, 0.5, 1.5, 2**31, 2**53, 2**63, 2**64, 10**400, -0.0, 1e-320, 1e308,
    float("nan"), float("inf"), "", "0", "population", "\x00", "\ud800", "x" * 10_000, "é",
    [], [[]], [0] * 6000, [None], ["1", 1], {}, {"a": 1}, [[[[[[[[1]]]]]]]], "CM12", "../../etc",
)  # fmt: skip
_METHODS: Final = ("GET", "POST", "PUT", "DELETE", "HEAD", "OPTIONS", "PATCH", "TRACE", "get", "X")


@dataclass(frozen=True)
class Message:
    """A request, and how it is sent."""

    data: bytes
    method: str = "POST"
    pause: float = 0.0
    """Seconds between pieces."""
    n_pieces: int = 1
    hangs_up: bool = False
    """Whether the client disconnects, as the request is incomplete."""

    @property
    def is_long(self) -> bool:
        """Whether the server may answer before it has received all."""
        return len(self.data) > 8_000

    def pieces(self) -> Iterator[bytes]:
        """Yield the pieces that are sent at a time."""
        step = -(-len(self.data) // self.n_pieces)
        for start in range(0, len(self.data), max(step, 1)):
            yield self.data[start : start + step]


def draw(paths: dict[str, Any], rng: random.Random) -> Message:
    """Draw a message, mostly from the OpenAPI description."""
    ways: list[Callable[[dict[str, Any], random.Random], Message]]
    ways = [_described] * 8 + [_bad_json] * 3 + [_bad_head] * 3 + [_odd_path, _raw, _unfinished]
    return rng.choice(ways)(paths, rng)


def _request(method: str, path: str, body: bytes | None, *more: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: localhost", *more]
    if body is not None:
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"Connection: close", b"", body or b""])


def _described(paths: dict[str, Any], rng: random.Random) -> Message:
    """Return a described request with some fields changed, missing or added."""
    path = rng.choice([path for path in paths if not path.startswith("/admin")])
    method = rng.choice([name.upper() for name in paths[path]])
    fields = dict(rng.sample(sorted(_FIELDS.items()), rng.randrange(6)))
    if rng.random() < 0.7:
        fields |= {"user": rng.choice([*USERS, 7, 999, "7"])}
        fields.pop("significance", None)
    for _ in range(rng.choice((0, 0, 1, 1, 2))):
        fields[rng.choice([*_FIELDS, "colour"])] = rng.choice(_VALUES)
    if method == "GET":
        words = "&".join(f"{name}={_escaped(str(value))}" for name, value in fields.items())
        return Message(_request("GET", f"{path}?{words}"[:9000], None), "GET")
    slow = rng.random() < 0.05
    return Message(_request(method, path, _json(fields)), method, 0.05 * slow, 1 + 3 * slow)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _escaped(text: str) -> str:
    safe = set(string.ascii_letters + string.digits + "-_.")
    letters = text[:2000].encode("utf-8", "replace").decode("latin-1")
    return "".join(one if one in safe else f"%{ord(one):02X}" for one in letters)


def _bad_json(paths: dict[str, Any], rng: random.Random) -> Message:
    """Return a request whose body is invalid or extremely deep JSON."""
    path = rng.choice([path for path in paths if "post" in paths[path] and "admin" not in path])
    whole = bytearray(_json(_FIELDS))
    kind = rng.randrange(8)
    if kind == 0:
        whole[rng.randrange(len(whole))] ^= 1 << rng.randrange(8)
    elif kind == 1:
        del whole[rng.randrange(len(whole)) :]
    elif kind == 2:
        whole = bytearray(b"[" * rng.choice((10, 2_000, 100_000)))
    elif kind == 3:
        whole = bytearray(b'{"a":' * rng.choice((10, 2_000, 20_000)))
    elif kind == 4:
        whole = bytearray(rng.randbytes(rng.randrange(300)))
    elif kind == 5:
        whole = bytearray(b'{"user": ' + b"9" * rng.choice((20, 5_000, 100_000)) + b"}")
    elif kind == 6:
        whole = bytearray(b'{"user": 1, "user": 2, "confidence": NaN, "k": -Infinity}')
    else:
        whole = bytearray(b'{"user": "\xff\xfe\xc3"}')
    return Message(_request("POST", path, bytes(whole)))


def _bad_head(_: dict[str, Any], rng: random.Random) -> Message:
    """Return a request with wrong, repeated or very long headers."""
    body = _json({"user": 7, "confidence": 0.8})
    top, host = b"POST /v1/recommendations HTTP/1.1\r\n", b"Host: localhost\r\n"
    close, sorts = b"Connection: close\r\n", b"Content-Type: application/json\r\n"
    length, end = b"Content-Length: %d\r\n" % len(body), b"\r\n" + body
    first = top + host + close
    usual = first + sorts + length
    chunked = b"Transfer-Encoding: chunked\r\n\r\n"
    kinds = (
        first + sorts + b"Content-Length: -5\r\n" + end,
        first + sorts + b"Content-Length: 1e3\r\n" + end,
        first + sorts + b"Content-Length: 5\r\nContent-Length: 7\r\n" + end,
        first + sorts + b"Content-Length: 99999999999999999999\r\n" + end,
        usual + b"X: " + b"y" * rng.choice((100, 20_000, _LONG)) + b"\r\n" + end,
        usual + b"".join(b"X%d: y\r\n" % n for n in range(3000)) + end,
        first + sorts + chunked + b"ZZ\r\n" + body,
        first + sorts + chunked + b"%x\r\n%s\r\n0\r\n\r\n" % (len(body), body),
        first + sorts + b"Transfer-Encoding: gzip\r\n" + end,
        first + b"Content-Type: text/csv\r\n" + length + end,
        first + b"Content-Type: application/json; charset=\xff\r\n" + length + end,
        usual + b"Origin: http://[\r\n" + end,
        usual + b"Origin: http://other.example\r\n" + end,
        usual + b"Authorization: Bearer \x80\r\n" + end,
        top + b"Host: other\r\n" + close + sorts + length + end,
        top + close + sorts + length + end,
        b"POST /v1/recommendations HTTP/9.9\r\n" + host + sorts + length + end,
        first + sorts + b"Content-Length: 10000000\r\n\r\n" + b" " * _LONG,
    )
    return Message(rng.choice(kinds))


def _odd_path(paths: dict[str, Any], rng: random.Random) -> Message:
    method = rng.choice(_METHODS)
    letters = "".join(chr(rng.randrange(33, 127)) for _ in range(rng.randrange(40)))
    odd = ("/%", "//", "/..%2f..%2fetc/passwd", "/%00", "/static/../x", "*", "/" + "a" * 9000)
    path = rng.choice([*paths, *odd, "/" + letters, "http://localhost/v1/model"])
    if path.startswith("/admin"):
        path = "/admin/other"
    return Message(_request(method, path, None), method)


def _raw(_: dict[str, Any], rng: random.Random) -> Message:
    return Message(rng.randbytes(rng.randrange(1, 400)).replace(b"\n", b"") + b"\r\n\r\n\r\n")


def _unfinished(paths: dict[str, Any], rng: random.Random) -> Message:
    """Return an incomplete request."""
    whole = _described(paths, rng).data
    return Message(whole[: rng.randrange(len(whole))], hangs_up=True)
