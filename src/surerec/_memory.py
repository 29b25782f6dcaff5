"""How much memory may still be used, so that work can be refused before it starts."""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["available_memory", "in_words"]

_CGROUPS = (
    ("/sys/fs/cgroup/memory.max", "/sys/fs/cgroup/memory.current"),
    ("/sys/fs/cgroup/memory/memory.limit_in_bytes", "/sys/fs/cgroup/memory/memory.usage_in_bytes"),
)


def available_memory() -> int:
    """Give the bytes that can be taken without swapping, within the container's limit if any."""
    free = _free_on_machine()
    for limit_file, used_file in _CGROUPS:
        try:
            limit = Path(limit_file).read_text().strip()
            used = Path(used_file).read_text().strip()
        except OSError:
            continue
        if limit.isdecimal() and used.isdecimal():
            free = min(free, max(int(limit) - int(used), 0))
    return free


def _free_on_machine() -> int:
    try:
        for line in Path("/proc/meminfo").read_text().splitlines():
            if line.startswith("MemAvailable:"):
                return int(line.split()[1]) * 1024
    except OSError:
        pass  # not Linux: the total is the best that is known
    if hasattr(os, "sysconf") and "SC_PHYS_PAGES" in os.sysconf_names:
        return os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    return 8 << 30


def in_words(n_bytes: float) -> str:
    """Say a number of bytes as a person would.

    Examples
    --------
    >>> in_words(15_376_000_000)
    '15.4 GB'
    """
    for unit in ("bytes", "kB", "MB", "GB"):
        if n_bytes < 1000:  # noqa: PLR2004
            return f"{n_bytes:.0f} {unit}" if unit == "bytes" else f"{n_bytes:.1f} {unit}"
        n_bytes /= 1000
    return f"{n_bytes:.1f} TB"
