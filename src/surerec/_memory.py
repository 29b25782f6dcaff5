"""How much memory may still be used, so that work can be refused before it starts."""

from __future__ import annotations

import os
import re
from pathlib import Path

from surerec.errors import InputError

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
