import re
import sys
from typing import NamedTuple

import pytest
from hypothesis import settings

from surerec.cli import main

# The first example may compile a kernel, so there is no deadline.
settings.register_profile("surerec", deadline=None, max_examples=60)
settings.load_profile("surerec")


class Done(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    def assert_refused(self, *says):
        """Assert that the command printed one error, which has these words, and no result."""
        assert (self.code, self.out) == (2, ""), self.err
        assert len(re.findall(r"\bError[: ]", self.err)) == 1, self.err
        for words in says:
            assert words in " ".join(self.err.split())


@pytest.fixture
def cli(capsys, monkeypatch):
    """Run ``surerec`` as its entry point does, and return exit code, stdout and stderr."""

    def run(*arguments):
        monkeypatch.setattr(sys, "argv", ["surerec", *map(str, arguments)])
        capsys.readouterr()
        with pytest.raises(SystemExit) as stop:
            main()
        captured = capsys.readouterr()
        assert "Traceback" not in captured.err
        return Done(stop.value.code or 0, captured.out, captured.err)

    return run


@pytest.fixture
def write(tmp_path):
    """Write a small file and return its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
