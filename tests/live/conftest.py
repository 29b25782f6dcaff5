"""Fixtures: both kinds of store (a real PostgreSQL server is started) and small models."""

from __future__ import annotations

from pathlib import Path

import pytest

import surerec as sr
from surerec.live import PostgresStore, SqliteStore
from tests.postgres import postgres  # noqa: F401  # a fixture


@pytest.fixture(params=["sqlite", "postgres"])
def place(request, tmp_path):
    """Return the file or the database address of a store."""
    if request.param == "sqlite":
        return tmp_path / "events.sqlite"
    return request.getfixturevalue("postgres")()


@pytest.fixture
def open_store(place):
    """Return a function that reopens the store, as a new process does."""
    opened = []

    def reopen():
        for store in opened:
            store.close()
        store = SqliteStore(place) if isinstance(place, Path) else PostgresStore(place)
        opened.append(store)
        return store

    yield reopen
    for store in opened:
        store.close()


@pytest.fixture(scope="session")
def small_model():
    """Return a fitted model of 60 users and 30 items."""
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1000, random_state=1)
    return sr.PopulationConformal("CM12", n_calibration=20).fit(films)


@pytest.fixture(scope="session")
def films():
    """Return interactions of 150 users and 50 items."""
    return sr.datasets.synthetic(n_users=150, n_items=50, n_rows=2500, random_state=3)


@pytest.fixture(scope="session")
def model(films):
    """Return a model fitted on `films`."""
    return sr.PopulationConformal("CM12", n_calibration=60).fit(films)
