"""The server compares every byte with its checksum: whoever loads, and whenever."""

import os
import shutil
import signal

import pytest

from tests.serving.serving_server import problem, save


def flip_a_count(folder):
    """Change one count, which nothing but its checksum can tell."""
    path = next(folder.glob("followers-*"))
    content = bytearray(path.read_bytes())
    content[-3] ^= 1
    path.write_bytes(content)
    return path.name


def test_neither_a_takeover_nor_a_new_worker_serves_what_is_damaged(tmp_path, start):
    folder = save(tmp_path / "films")
    server = start(folder, "--workers", "1")
    with server.client() as client:
        before = client.get("v1/model").headers["surerec-model"]
        save(folder, seed=2, overwrite=True)
        flip_a_count(folder)
        assert "the old model is served on" in problem(client.post("admin/reload"), 409)
        assert client.get("v1/model").headers["surerec-model"] == before
    os.kill(server.workers()[-1], signal.SIGKILL)
    told = server.wait_for("worker cannot serve")[0]
    assert "is not as it was saved" in told["why"]
