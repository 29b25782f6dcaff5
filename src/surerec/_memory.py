"""Available memory, so that work that would not fit is refused before it starts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path("/")  # of the kernel's files about memory


def available_memory() -> int:
    """Return the bytes that can be used without swapping, within the limits of the process.

    The limits are those of the control groups of the process, as set by a container, a service or
    a batch system.
    """
    free = _free_on_machine()
    for group, version in _control_groups():
        try:
            left = _number(group / version.limit) - _number(group / version.used)
            if left < free:
                free = min(free, max(left + _cached(group, version), 0))
        except (OSError, ValueError):  # no limit, or not readable
            continue
    return free


def _number(file: Path) -> int:
    return int(file.read_text())  # ValueError for "max"


class _Version(NamedTuple):
    """The folder and the files of one version of control groups."""

    top: str
    limit: str
    used: str
    cached: tuple[str, ...]
    """Keys in memory.stat."""


_V1: Final = _Version(
    "sys/fs/cgroup/memory",
    "memory.limit_in_bytes",
    "memory.usage_in_bytes",
    ("total_active_file", "total_inactive_file"),
)
_V2: Final = _Version(
    "sys/fs/cgroup", "memory.max", "memory.current", ("active_file", "inactive_file")
)


def _cached(group: Path, version: _Version) -> int:
    """Return the bytes of the page cache: counted as used, but reclaimable."""
    stat = dict(line.split(maxsplit=1) for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(stat.get(name, 0)) for name in version.cached)


def _control_groups() -> Iterator[tuple[Path, _Version]]:
    """Yield the folders of the process's control group and its parents, in both versions.

    A container may see the path of its group on the host: then only the top folder exists.
    """
    try:
        groups = (_ROOT / "proc" / "self" / "cgroup").read_text().splitlines()
    except OSError:
        return  # not Linux
    for line in groups:  # number:controllers:path
        controllers, _, path = line.partition(":")[2].partition(":")
        if not controllers or "memory" in controllers.split(","):
            version = _V1 if controllers else _V2
            top = _ROOT / version.top
            inside = Path(path.lstrip("/"))
            for group in (inside, *inside.parents):
                yield top / group, version


def _free_on_machine() -> int:
    try:
        for line in (_ROOT / "proc" / "meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: use the total
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def parse_bytes(text: str) -> int:
    """Parse an amount of memory with a unit.

    Examples
    --------
    >>> parse_bytes("2 GB"), parse_bytes("512")
    (2000000000, 512)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?[bB]?\s*", text)
    if found is None:
        raise InputError(f"{text!r} is not an amount of memory. Use for example 2GB or 500MB.")
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))
