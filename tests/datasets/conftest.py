"""Fixtures: an HTTP server, an empty cache and short timeouts."""

from __future__ import annotations

import pytest

from tests.datasets.http_server import Server


@pytest.fixture
def server():
    server = Server()
    yield server
    server.close()


@pytest.fixture(autouse=True)
def own_cache(tmp_path_factory, monkeypatch):
    folder = tmp_path_factory.mktemp("cache")
    monkeypatch.setenv("SUREREC_CACHE", str(folder))
    for proxy in ("http_proxy", "https_proxy", "HTTP_PROXY", "HTTPS_PROXY"):
        monkeypatch.delenv(proxy, raising=False)
    return folder


@pytest.fixture(autouse=True)
def short_waits(monkeypatch):
    monkeypatch.setattr("surerec.datasets._download._BACK_OFF", 0.01)
