"""A word to who waits while kernels are compiled, which happens once on a machine."""

from __future__ import annotations

import platform
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING

import numba
from rich.console import Console

from surerec._files import cache_folder
from surerec._version import __version__

if TYPE_CHECKING:
    from collections.abc import Iterator


@contextmanager
def first_use_notice() -> Iterator[None]:
    """Say on a terminal that compiling takes a while, if nothing was counted here before.

    numba keeps what it compiled; a stamp in the cache folder remembers that it has.
    """
    versions = f"{__version__}-{numba.__version__}-{platform.python_version()}"
    stamp = cache_folder() / f"compiled-{versions}"
    if stamp.exists():
        yield
        return
    console = Console(stderr=True)
    if console.is_terminal:
        console.print("Compiling, once on this machine; this takes some seconds …", style="dim")
    yield
    with suppress(OSError):  # a cache that cannot be written to only means another notice
        stamp.parent.mkdir(parents=True, exist_ok=True)
        stamp.touch()
