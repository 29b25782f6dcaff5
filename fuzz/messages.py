"""Requests to try on a server: from its description, with bad values, and no HTTP at all."""

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
    """What is sent, and how."""

    data: bytes
    method: str = "POST"
    pause: float = 0.0
    """Seconds between its pieces."""
    n_pieces: int = 1
    hangs_up: bool = False
    """Whether no answer is waited for, since the request has no end."""

    @property
    def is_long(self) -> bool:
        """Whether the server may answer before all of it is there."""
        return len(self.data) > 8_000

    def pieces(self) -> Iterator[bytes]:
        """Give what is sent at a time."""
        step = -(-len(self.data) // self.n_pieces)
        for start in range(0, len(self.data), max(step, 1)):
            yield self.data[start : start + step]


def draw(paths: dict[str, Any], chance: random.Random) -> Message:
    """Draw a message: by the server's description mostly, and raw bytes."""
    ways: list[Callable[[dict[str, Any], random.Random], Message]]
    ways = [_described] * 8 + [_bad_json] * 3 + [_bad_head] * 3 + [_odd_path, _raw, _unfinished]
    return chance.choice(ways)(paths, chance)


def _request(method: str, path: str, body: bytes | None, *more: bytes) -> bytes:
    lines = [f"{method} {path} HTTP/1.1".encode("latin-1"), b"Host: localhost", *more]
    if body is not None:
        lines += [b"Content-Type: application/json", b"Content-Length: %d" % len(body)]
    return b"\r\n".join([*lines, b"Connection: close", b"", body or b""])


def _described(paths: dict[str, Any], chance: random.Random) -> Message:
    """Ask as the description says, with some fields changed, missing or too many."""
    path = chance.choice([path for path in paths if not path.startswith("/admin")])
    method = chance.choice([name.upper() for name in paths[path]])
    fields = dict(chance.sample(sorted(_FIELDS.items()), chance.randrange(6)))
    if chance.random() < 0.7:
        fields |= {"user": chance.choice([*USERS, 7, 999, "7"])}
        fields.pop("significance", None)
    for _ in range(chance.choice((0, 0, 1, 1, 2))):
        fields[chance.choice([*_FIELDS, "colour"])] = chance.choice(_VALUES)
    if method == "GET":
        words = "&".join(f"{name}={_escaped(str(value))}" for name, value in fields.items())
        return Message(_request("GET", f"{path}?{words}"[:9000], None), "GET")
    slow = chance.random() < 0.05
    return Message(_request(method, path, _json(fields)), method, 0.05 * slow, 1 + 3 * slow)


def _json(value: Any) -> bytes:
    return json.dumps(value).encode()


def _escaped(text: str) -> str:
    safe = set(string.ascii_letters + string.digits + "-_.")
    letters = text[:2000].encode("utf-8", "replace").decode("latin-1")
    return "".join(one if one in safe else f"%{ord(one):02X}" for one in letters)


def _bad_json(paths: dict[str, Any], chance: random.Random) -> Message:
    """Send a body that is no JSON, or JSON without end."""
    path = chance.choice([path for path in paths if "post" in paths[path] and "admin" not in path])
    whole = bytearray(_json(_FIELDS))
    kind = chance.randrange(8)
    if kind == 0:
        whole[chance.randrange(len(whole))] ^= 1 << chance.randrange(8)
    elif kind == 1:
        del whole[chance.randrange(len(whole)) :]
    elif kind == 2:
        whole = bytearray(b"[" * chance.choice((10, 2_000, 100_000)))
    elif kind == 3:
        whole = bytearray(b'{"a":' * chance.choice((10, 2_000, 20_000)))
    elif kind == 4:
        whole = bytearray(chance.randbytes(chance.randrange(300)))
    elif kind == 5:
        whole = bytearray(b'{"user": ' + b"9" * chance.choice((20, 5_000, 100_000)) + b"}")
    elif kind == 6:
        whole = bytearray(b'{"user": 1, "user": 2, "confidence": NaN, "k": -Infinity}')
    else:
        whole = bytearray(b'{"user": "\xff\xfe\xc3"}')
    return Message(_request("POST", path, bytes(whole)))


def _bad_head(_: dict[str, Any], chance: random.Random) -> Message:
    """Send heads that lie, repeat themselves or never end."""
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
        usual + b"X: " + b"y" * chance.choice((100, 20_000, _LONG)) + b"\r\n" + end,
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
    return Message(chance.choice(kinds))


def _odd_path(paths: dict[str, Any], chance: random.Random) -> Message:
    method = chance.choice(_METHODS)
    letters = "".join(chr(chance.randrange(33, 127)) for _ in range(chance.randrange(40)))
    odd = ("/%", "//", "/..%2f..%2fetc/passwd", "/%00", "/static/../x", "*", "/" + "a" * 9000)
    path = chance.choice([*paths, *odd, "/" + letters, "http://localhost/v1/model"])
    if path.startswith("/admin"):
        path = "/admin/other"
    return Message(_request(method, path, None), method)


def _raw(_: dict[str, Any], chance: random.Random) -> Message:
    return Message(chance.randbytes(chance.randrange(1, 400)).replace(b"\n", b"") + b"\r\n\r\n\r\n")


def _unfinished(paths: dict[str, Any], chance: random.Random) -> Message:
    """Begin a request, and hang up."""
    whole = _described(paths, chance).data
    return Message(whole[: chance.randrange(len(whole))], hangs_up=True)
