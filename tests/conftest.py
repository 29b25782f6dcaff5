import sys
from types import SimpleNamespace

import pytest
from hypothesis import settings

from surerec.cli import main

# The first example may compile a kernel, so there is no deadline.
settings.register_profile("surerec", deadline=None, max_examples=60)
settings.load_profile("surerec")


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
        return SimpleNamespace(code=stop.value.code or 0, out=captured.out, err=captured.err)

    return run


@pytest.fixture
def write(tmp_path):
    """Write a small file and return its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
