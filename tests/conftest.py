import pytest
from hypothesis import settings

# Compiling a kernel in the first example is no reason to fail it.
settings.register_profile("surerec", deadline=None, max_examples=60)
settings.load_profile("surerec")


@pytest.fixture
def write(tmp_path):
    """Write a small file and give its path."""

    def write_file(name, content):
        path = tmp_path / name
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        return path

    return write_file
