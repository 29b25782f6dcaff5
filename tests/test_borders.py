"""Private modules and names stay in their package."""

import ast
from pathlib import Path

import pytest

import surerec

pytest.importorskip("importlinter")

from checks.imports import _may_import

SOURCE = Path(surerec.__file__).parent


@pytest.mark.parametrize(
    ("importer", "imported", "may"),
    [
        ("surerec.audit._report", "surerec.reports", True),
        ("surerec.audit._report", "surerec.reports._pages", False),
        ("surerec.measures.learned._scorer", "surerec.measures._scorer", True),
        ("surerec.measures._own", "surerec.measures.learned._scorer", False),
        ("surerec.cli._fit", "surerec._threads", True),
        ("surerec.cli", "surerec.cli._fit", True),
        ("surerec.climate", "surerec.cli._fit", False),
    ],
)
def test_private_modules_stay_in_their_package(importer, imported, may):
    assert _may_import(importer, imported) is may


def test_private_names_stay_in_their_package():
    """The linter sees modules; names with a leading underscore are seen here."""
    crossings = []
    for path in SOURCE.rglob("*.py"):
        package = path.relative_to(SOURCE).parts[0]
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if not isinstance(node, ast.ImportFrom) or not (node.module or "").startswith(
                "surerec."
            ):
                continue
            other = node.module.split(".")[1]
            if other != package and not other.startswith("_"):
                names = [alias.name for alias in node.names]
                crossings += [f"{path}: {name}" for name in names if name.startswith("_")]
    assert crossings == []


def test_private_members_stay_in_their_package():
    """Functions of `recommenders` read those of its estimators, one adapter those of RecTools."""
    found = [p for p in SOURCE.rglob("*.py") if "SLF001" in p.read_text(encoding="utf-8")]
    assert {p.relative_to(SOURCE).parts for p in found} == {
        ("adapters", "_transformers.py"),
        ("recommenders", "_estimator.py"),
        ("recommenders", "_folder.py"),
    }
