"""The examples of docs/wrapping.md are run, and print what it says."""

import pytest

from tests.adapters.asking import PAGES, run_page


def test_the_examples_print_what_the_page_says(tmp_path, monkeypatch):
    pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")
    monkeypatch.chdir(tmp_path)
    found = run_page(PAGES / "wrapping.md")
    assert len(found) == 4
    for printed, said in found:
        assert printed == said
