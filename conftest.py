"""What pytest must know of the whole tree: what takes minutes, and what needs another library."""

from __future__ import annotations

from importlib.util import find_spec
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import pytest

# Examples of these are run where the library is installed; any other import that fails is a fault.
_NEEDS = {
    "cornac": "adapters/_cornac.py",
    "implicit": "adapters/_implicit.py",
    "lenskit": "adapters/_lenskit.py",
    "pyspark": "spark",
    "pytorch_lightning": "adapters/_transformers.py",
    "recbole": "adapters/_recbole.py",
}
collect_ignore = [
    f"src/surerec/{where}" for library, where in _NEEDS.items() if find_spec(library) is None
]


def pytest_addoption(parser: pytest.Parser) -> None:
    """Add ``--full``."""
    parser.addoption("--full", action="store_true", help="also what takes minutes: make test-full")


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Leave out what takes minutes, unless it is asked for."""
    if config.getoption("--full"):
        return
    slow = [item for item in items if item.get_closest_marker("full")]
    config.hook.pytest_deselected(items=slow)
    items[:] = [item for item in items if item not in slow]
