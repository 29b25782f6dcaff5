"""A store that is damaged, removed or replaced while it is open keeps nothing, and says so."""

from __future__ import annotations

import sqlite3

import pytest

from surerec.errors import StoreError
from surerec.live import Live

EVENT = {"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"}


@pytest.fixture
def live(tmp_path, small_model):
    with Live.create(tmp_path / "shop", small_model, recount=False) as made:
        made.observe(EVENT)
        yield made


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_nothing_is_acknowledged_into_a_file_that_is_gone(live, tmp_path, end, replaced):
    live.check_store()
    file = tmp_path / "shop" / f"events.sqlite{end}"
    kept = file.rename(tmp_path / "aside")
    if replaced:
        file.write_bytes(kept.read_bytes())
    for ask in (
        lambda: live.observe({**EVENT, "item": 12}),
        lambda: live.recommend(7, confidence=0.9),
        live.check_store,
    ):
        with pytest.raises(StoreError, match="was removed or replaced while it was open") as raised:
            ask()
        assert raised.value.reason == "file removed or replaced"
    kept.rename(file)  # it is back, and nothing was lost
    live.check_store()
    assert live.observe({**EVENT, "item": 12}).taken == 1
    assert live.status().n_events == 2


def test_damaged_pages_are_the_stores_fault_and_stay_so(live, tmp_path):
    live._state.store.compact()
    file = tmp_path / "shop" / "events.sqlite"
    whole = file.read_bytes()
    with file.open("r+b") as pages:
        pages.write(b"\x5a" * len(whole))
    live._state.store._connection.execute(
        "PRAGMA shrink_memory"
    )  # pages are read from the file again
    with pytest.raises(StoreError, match="restore it from a copy") as raised:
        live.observe({**EVENT, "item": 12})
    assert raised.value.reason == "damaged"
    with file.open("r+b") as pages:
        pages.write(whole)
    with pytest.raises(StoreError, match="restore it from a copy"):  # until it is opened again
        live.check_store()


@pytest.mark.parametrize(
    ("name", "value"), [("base", "null"), ("base", "{}"), ("ledger", "[]"), ("ledger", "{")]
)
def test_values_that_nobody_wrote_are_the_stores_fault(live, tmp_path, name, value):
    with sqlite3.connect(tmp_path / "shop" / "events.sqlite") as other:
        other.execute("UPDATE surerec_meta SET value = ? WHERE name = ?", (value, name))
    other.close()
    with pytest.raises(StoreError, match="restore it from a copy"):
        live.recommend(7, confidence=0.9)


def test_a_model_that_cannot_be_read_again_is_the_stores_fault(live, tmp_path):
    for file in (tmp_path / "shop" / "models" / "000001").iterdir():
        file.unlink()
    live._state._is_stale = True  # as after a transaction that failed
    with pytest.raises(StoreError) as raised:
        live.observe({**EVENT, "item": 12})
    assert raised.value.reason == "model cannot be read"
