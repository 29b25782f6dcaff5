"""Messages between the supervisor and a worker: JSON lines over a pair of sockets."""

from __future__ import annotations

import asyncio
import json
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import socket


_LONGEST = 1 << 20


class Channel:
    """One end of the pair.

    Parameters
    ----------
    reader, writer
        Of :meth:`open`.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._reader = reader
        self._writer = writer

    @classmethod
    async def open(cls, end: socket.socket) -> Channel:
        """Use one end of a pair of sockets in this event loop."""
        return cls(*await asyncio.open_connection(sock=end, limit=_LONGEST))

    def say(self, what: str, **fields: Any) -> None:
        """Send a message; to one who is gone it is lost."""
        if not self._writer.is_closing():
            self._writer.write(json.dumps({"what": what, **fields}).encode() + b"\n")

    async def hear(self) -> dict[str, Any] | None:
        """Wait for a message; None when the other end is gone."""
        try:
            line = await self._reader.readline()
        except (ConnectionError, ValueError):
            return None
        if not line.endswith(b"\n"):
            return None
        message: dict[str, Any] = json.loads(line)
        return message

    def close(self) -> None:
        """Hang up."""
        self._writer.close()
