"""The README's example is run, and must print what it says."""

import re
from contextlib import redirect_stdout
from io import StringIO
from pathlib import Path

import pytest

import surerec as sr

README = Path(__file__).parents[1] / "README.md"


@pytest.mark.registry
def test_the_readme_example_prints_what_it_says():
    code, output = re.search(
        r"```python\n(.*?)```\n\n```text\n(.*?)```", README.read_text(), re.DOTALL
    ).groups()
    printed = StringIO()
    try:
        with redirect_stdout(printed):
            exec(compile(code, str(README), "exec"), {})  # noqa: S102  # our own README
    except sr.FetchError as error:
        pytest.skip(f"the data are out of reach: {error}")
    assert printed.getvalue() == output
