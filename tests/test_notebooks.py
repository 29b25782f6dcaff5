"""The notebooks run from top to bottom on real data, and their committed outputs are current."""

import re

import pytest

import surerec as sr
from checks.notebooks import NOTEBOOKS, code_cells, outputs


def words(found):
    """Return the words and numbers of a cell's outputs, without tables' borders and images."""
    texts = [each.get("text") or each["data"]["text/plain"] for each in found]
    return re.findall(r"[A-Za-z]{3,}|\d[\d.,]*", "".join("".join(text) for text in texts))


@pytest.mark.registry
@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_running_a_notebook_gives_its_committed_outputs(path, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    try:
        again = list(outputs(path))
    except sr.FetchError as error:
        pytest.skip(f"the data are out of reach: {error}")
    committed = [cell["outputs"] for cell in code_cells(path)]
    assert [words(found) for found in again] == [words(found) for found in committed]


def test_outputs_are_small_and_a_forge_shows_them():
    assert [path.stem for path in NOTEBOOKS] == [
        "audit-of-real-data",
        "first-steps",
        "your-own-model",
    ]
    for path in NOTEBOOKS:
        assert path.stat().st_size < 300_000
        shown = [each for cell in code_cells(path) for each in cell["outputs"]]
        assert len(shown) >= 4
        kinds = {kind for each in shown for kind in each.get("data", {})}
        assert "text/plain" in kinds <= {"text/plain", "image/png"}
