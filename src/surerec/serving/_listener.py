"""The socket that all workers accept from."""

from __future__ import annotations

import errno
import socket

from surerec.errors import InputError

_BACKLOG = 1024
_UNACKNOWLEDGED_MS = 30_000


def listen(host: str, port: int) -> socket.socket:
    """Give a listening socket; InputError if the address or the port cannot be had."""
    try:
        found = socket.getaddrinfo(
            host.strip("[]"), port, type=socket.SOCK_STREAM, flags=socket.AI_PASSIVE
        )
        family, _, _, _, address = found[0]
        listener = socket.create_server(address[:2], family=family, backlog=_BACKLOG)
    except socket.gaierror:
        raise InputError(f"{host!r} is no address of this machine; try 127.0.0.1.") from None
    except OSError as error:
        if error.errno == errno.EADDRINUSE:
            raise InputError(
                f"Port {port} of {host} is in use by another program; choose another with --port, "
                "or 0 for a free one."
            ) from None
        if error.errno == errno.EADDRNOTAVAIL:
            raise InputError(f"{host!r} is no address of this machine; try 127.0.0.1.") from None
        raise InputError(f"Cannot listen on {host}:{port} ({error.strerror}).") from None
    if hasattr(socket, "TCP_USER_TIMEOUT"):  # Linux; accepted connections inherit it
        # Whoever asks and then never reads would hold the answer in memory for hours.
        listener.setsockopt(socket.IPPROTO_TCP, socket.TCP_USER_TIMEOUT, _UNACKNOWLEDGED_MS)
    return listener


def url_of(listener: socket.socket) -> str:
    """Give the address as a browser takes it."""
    host, port = listener.getsockname()[:2]
    if host in {"0.0.0.0", "::"}:  # noqa: S104  # compared, not bound
        host = "127.0.0.1" if host == "0.0.0.0" else "::1"  # noqa: S104
    return f"http://[{host}]:{port}/" if ":" in host else f"http://{host}:{port}/"
