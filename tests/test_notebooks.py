"""The notebooks run from top to bottom, on real data, and are kept without what they put out."""

import ast
import json
from pathlib import Path

import pytest

import surerec as sr

NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def run(source, names):
    """Run a cell as a notebook does, and give the value of its last expression."""
    body = ast.parse(source).body
    last = body.pop() if body and isinstance(body[-1], ast.Expr) else None
    exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  # our own notebook
    return None if last is None else eval(ast.unparse(last.value), names)  # noqa: S307


@pytest.mark.registry
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_a_notebook_runs_from_top_to_bottom(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    names = {}
    cells = [cell for cell in json.loads(path.read_text())["cells"] if cell["cell_type"] == "code"]
    assert len(cells) >= 4
    for cell in cells:
        try:
            shown = run("".join(cell["source"]), names)
        except sr.FetchError as error:
            pytest.skip(f"the data are out of reach: {error}")
        if shown is not None:
            assert (shown._repr_html_() if hasattr(shown, "_repr_html_") else repr(shown)).strip()


def test_they_are_kept_without_outputs():
    assert [path.stem for path in NOTEBOOKS] == [
        "audit-of-real-data",
        "first-steps",
        "your-own-model",
    ]
    for path in NOTEBOOKS:
        for cell in json.loads(path.read_text())["cells"]:
            assert not cell.get("outputs")
            assert cell.get("execution_count") is None
