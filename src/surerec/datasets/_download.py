"""One file over HTTP: resumed after a cut, bounded, verified, and never half there."""

from __future__ import annotations

import os
import re
import time
from http import HTTPStatus
from typing import TYPE_CHECKING

from surerec._files import digest
from surerec._progress import progress
from surerec.datasets._http import Interrupted, SourceError, receive, validator, visit
from surerec.datasets._part import Part, disk_errors

if TYPE_CHECKING:
    from http.client import HTTPResponse
    from pathlib import Path


_BACK_OFF = 0.5
_MAX_BYTES = 4 << 30


def download(
    url: str,
    target: Path,
    *,
    checksum: str | None = None,
    timeout: float = 30.0,
    attempts: int = 4,
    max_bytes: int = _MAX_BYTES,
) -> Path:
    """Bring a file, resuming what an earlier try or an earlier call left.

    Two processes must not bring the same target at once: the caller holds a lock.

    Parameters
    ----------
    url : str
        An http or https address.
    target : Path
        Where the file shall be; it appears there complete or not at all.
    checksum : str, optional
        ``md5:…`` or ``sha256:…`` in hexadecimal.
    timeout : float, default=30.0
        Seconds of silence after which a connection counts as dead.
    attempts : int, default=4
        How often to try; a host that cannot be reached at all is tried twice.
    max_bytes : int, default=4 GiB
        A longer file is refused.

    Returns
    -------
    Path
        The target.

    Raises
    ------
    FetchError
        If the file could not be brought; the sentence says why and what to do.
    """
    with disk_errors(url, target.parent):
        target.parent.mkdir(parents=True, exist_ok=True)
    part = Part(target)
    tries, limit, reason = 0, attempts, ""
    while tries < limit:
        if tries:
            time.sleep(_BACK_OFF * 2 ** (tries - 1))
        tries += 1
        try:
            resumed = _pull(url, part, timeout, max_bytes)
        except Interrupted as stop:
            reason = stop.reason
            if stop.start_over:
                part.remove()
            if stop.unlikely:
                limit = min(limit, 2)
            continue
        except SourceError:
            part.remove()
            raise
        if _matches(part, checksum):
            with disk_errors(url, target.parent):
                return part.finish()
        part.remove()
        if not resumed:
            raise SourceError(
                "wrong checksum",
                f"{url} came with a wrong checksum; the file has changed or was damaged "
                "on its way, so try again later or give your own copy as path=.",
            )
        # The earlier bytes may be to blame: one more try, from the first byte.
        reason, limit = "wrong checksum", max(limit, tries + 1)
    raise SourceError(
        reason,
        f"{url} could not be brought ({reason}); look at the connection and try again: "
        "what has come so far is kept.",
    )


def _pull(url: str, part: Part, timeout: float, max_bytes: int) -> bool:
    """Bring what is missing of a part; say whether earlier bytes were used."""
    have, version, total = part.state()
    if have and have == total:
        return True
    headers = {"Range": f"bytes={have}-", "If-Range": version} if have else {}
    with visit(url, headers, timeout) as response:
        if response.status == HTTPStatus.PARTIAL_CONTENT and have:
            total = _checked_total(response, have, version, total)
        elif response.status == HTTPStatus.OK:
            have, total = 0, response.length
        else:
            raise Interrupted(f"HTTP {response.status}", start_over=True)
        resumed = have > 0
        needed = None if total is None else total - have
        if total is not None and total > max_bytes:
            raise _too_long(url, max_bytes)
        with disk_errors(url, part.path.parent, needed):
            if not resumed:
                part.begin(validator(response.headers), total)
            have = _append(response, part, have, total, timeout=timeout, max_bytes=max_bytes)
    if have > max_bytes:
        raise _too_long(url, max_bytes)
    if total is not None and have != total:
        raise Interrupted("connection cut", start_over=have > total)
    return resumed


def _checked_total(response: HTTPResponse, have: int, version: str, total: int | None) -> int:
    """Make sure that the answer goes on where the part ends, in the same version of the file."""
    found = re.fullmatch(r"bytes (\d+)-\d+/(\d+)", response.headers.get("Content-Range", ""))
    if (
        found is None
        or int(found[1]) != have
        or total not in (None, int(found[2]))
        or validator(response.headers) not in (None, version)
    ):
        raise Interrupted("wrong part of the file sent", start_over=True)
    return int(found[2])


def _append(
    response: HTTPResponse,
    part: Part,
    have: int,
    total: int | None,
    *,
    timeout: float,
    max_bytes: int,
) -> int:
    """Write the body behind what is there; give the length, one past the limit at the most."""
    with (
        part.path.open("ab") as file,
        progress(f"Fetching {part.target.name}", total, unit="bytes") as advance,
    ):
        advance(have)
        for chunk in receive(response, timeout):
            have += len(chunk)
            if have > max_bytes:
                break
            file.write(chunk)
            advance(len(chunk))
        file.flush()
        os.fsync(file.fileno())
    return have


def _matches(part: Part, checksum: str | None) -> bool:
    if checksum is None:
        return True
    algorithm, _, expected = checksum.partition(":")
    return digest(part.path, algorithm) == expected.lower()


def _too_long(url: str, max_bytes: int) -> SourceError:
    return SourceError(
        "too long",
        f"{url} is longer than the {max_bytes / 1e6:,.1f} MB allowed for it; "
        "it is not the file that was meant.",
    )
