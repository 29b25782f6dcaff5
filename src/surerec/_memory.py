"""How much memory may still be used, so that work can be refused before it starts."""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator

_ROOT = Path("/")  # of the files that the kernel tells of memory in


def available_memory() -> int:
    """Return the bytes that can be used without swapping, within the limits of the process.

    Limits are those of the control group of the process and of every group that it is in, as a
    container, a service or a batch system sets them.
    """
    free = _free_on_machine()
    for group, version in _control_groups():
        try:
            left = _number(group / version.limit) - _number(group / version.used)
            if left < free:
                free = min(free, max(left + _cached(group, version), 0))
        except (OSError, ValueError):  # without a limit, or closed to its members
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
    """Lines of memory.stat."""


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
    """Return the bytes of files that were read: they count as used, and are given back."""
    stat = dict(line.split(maxsplit=1) for line in (group / "memory.stat").read_text().splitlines())
    return sum(int(stat.get(name, 0)) for name in version.cached)


def _control_groups() -> Iterator[tuple[Path, _Version]]:
    """Yield the folders of the process's group and of the groups around it, in both versions.

    A container may see the path of its group outside: then only the topmost folder is there.
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
        pass  # not Linux: the total is the best that is known
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def from_words(text: str) -> int:
    """Read a number of bytes as a person writes it.

    Examples
    --------
    >>> from_words("2 GB"), from_words("512")
    (2000000000, 512)
    """
    found = re.fullmatch(r"\s*(\d+(?:\.\d+)?)\s*([kMGT]?)i?[bB]?\s*", text)
    if found is None:
        raise InputError(f"{text!r} is no amount of memory; write it as 2GB or 500MB.")
    return int(float(found[1]) * 1000 ** " kMGT".index(found[2] or " "))
