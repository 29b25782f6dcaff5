"""The examples of docs/wrapping.md are run, and print what it says."""

import re

import numpy as np
import pytest

from tests.adapters.asking import PAGES, run_page

# Factors differ in their last digits between processors, and the set by an item.
_SIZE = re.compile(r"(?<=RecommendationSet\()\d+")


def test_the_examples_print_what_the_page_says(tmp_path, monkeypatch):
    pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")
    monkeypatch.chdir(tmp_path)
    found = run_page(PAGES / "wrapping.md")
    assert len(found) == 5
    for printed, said in found:
        assert _SIZE.sub("", printed) == _SIZE.sub("", said)
        sizes = [list(map(int, _SIZE.findall(text))) for text in (printed, said)]
        assert np.abs(np.subtract(*sizes)).max(initial=0) <= 2
