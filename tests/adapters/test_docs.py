"""The examples of docs/wrapping.md are run, and print what it says."""

import re
import warnings
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

PAGE = Path(__file__).parents[2] / "docs" / "wrapping.md"


def test_the_examples_print_what_the_page_says(tmp_path, monkeypatch):
    pytest.importorskip("implicit", reason="wrapping implicit needs it: pip install implicit")
    monkeypatch.chdir(tmp_path)
    names = {}
    pairs = re.findall(r"```python\n(.*?)```\n\n```text\n(.*?)```", PAGE.read_text(), re.DOTALL)
    assert len(pairs) == 4
    for code, output in pairs:
        printed = StringIO()
        with redirect_stdout(printed), warnings.catch_warnings():
            warnings.simplefilter("ignore")  # users of the future only, and implicit's BLAS
            exec(compile(code, str(PAGE), "exec"), names)  # noqa: S102  # our own page
        assert printed.getvalue() == output
