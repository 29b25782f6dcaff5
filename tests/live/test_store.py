"""Event stores: atomic, durable and ordered, on SQLite and on PostgreSQL."""

from __future__ import annotations

import sqlite3
from types import SimpleNamespace

import pytest

from surerec.errors import InputError, StoreError
from surerec.live import Live, PostgresStore, SqliteStore, StoredEvent

EVENT = {"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"}


@pytest.fixture
def live(tmp_path, small_model):
    with Live.create(tmp_path / "shop", small_model, refit=False) as made:
        made.observe(EVENT)
        yield made


def event(seq, user="ann", item="alien", outcome="evaluated"):
    return StoredEvent(seq, f"key {seq}", user, item, 1_000_000 * seq, outcome)


def test_writes_survive_reopening(open_store):
    with open_store().writing() as transaction:
        transaction.append([event(1), event(2, "bob", "brazil", "new item")])
        transaction.put("state", {"levels": [0.1, 0.2]})
    with open_store().reading() as transaction:
        assert list(transaction.events()) == [event(1), event(2, "bob", "brazil", "new item")]
        assert list(transaction.events(after=1)) == [event(2, "bob", "brazil", "new item")]
        assert transaction.get("state") == {"levels": [0.1, 0.2]}
        assert transaction.get("nothing") is None
        assert transaction.last() == transaction.count() == 2
        assert transaction.known_keys(["key 1", "key 7", *map(str, range(1000))]) == {"key 1"}


def test_transactions_are_atomic(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1)])

    def fail():
        with store.writing() as transaction:
            transaction.append([event(2)])
            transaction.put("state", 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        fail()
    with store.reading() as transaction:
        assert transaction.count() == transaction.last() == 1
        assert transaction.get("state") is None


def test_keys_are_unique(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1)])
    with pytest.raises(StoreError, match="Send them again"), store.writing() as transaction:
        transaction.append([event(1)._replace(seq=2)])
    with store.reading() as transaction:
        assert transaction.count() == 1


def test_a_forgotten_user_is_deleted_and_recorded_until_the_refit(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1), event(2, "bob"), event(3)])
        assert transaction.forget("ann") == 2
    with open_store().reading() as transaction:
        kept = [(each.seq, each.user, each.outcome) for each in transaction.events()]
        assert kept == [(2, "bob", "evaluated"), (4, "ann", "forgotten")]
        assert (transaction.count(), transaction.last()) == (1, 4)
    with open_store().writing() as transaction:
        assert transaction.forget("ann") == 0  # the record of a deletion is not an event
        transaction.forget_names(until=5)
        assert [each.user for each in transaction.events()] == ["bob"]


def test_a_store_of_another_schema_is_refused(open_store):
    with open_store().writing() as transaction:
        transaction.put("schema", 99)
    with pytest.raises(InputError, match="schema version 99, but this surerec reads version 5"):
        open_store()


def test_other_files_are_refused(tmp_path):
    path = tmp_path / "events.sqlite"
    path.write_bytes(b"user,item,time\n" * 1000)
    with pytest.raises(StoreError, match="is not a readable event store"):
        SqliteStore(path)


def test_a_file_is_locked_against_other_processes(tmp_path):
    store = SqliteStore(tmp_path / "events.sqlite")
    with pytest.raises(InputError, match="Run one server at a time, or store events in PostgreSQL"):
        SqliteStore(tmp_path / "events.sqlite")
    store.close()
    SqliteStore(tmp_path / "events.sqlite").close()


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_disk_errors_report_their_cause(tmp_path, monkeypatch, free):
    """SQLite reports an I/O error if it cannot create the index of the write-ahead log."""
    store = SqliteStore(tmp_path / "events.sqlite")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    message = (
        "cannot be read or written" if free else "the disk is full; these events were not stored"
    )
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR | 18 << 8
    with pytest.raises(StoreError, match=message), store.writing():
        raise error
    store.close()


def test_a_hanging_server_does_not_block_others_for_ever(postgres, monkeypatch):
    monkeypatch.setattr("surerec.live._store._SECONDS", 1)
    address = postgres()
    hanging, other = PostgresStore(address), PostgresStore(address)
    with hanging.writing() as transaction:
        transaction.append([event(1)])
        with pytest.raises(StoreError, match="lock timeout"), other.writing():
            pass
        with other.reading() as reading:  # readers do not wait
            assert reading.count() == 0
    with other.writing() as transaction:
        assert transaction.count() == 1
    for store in (hanging, other):
        store.close()


def test_an_unavailable_database_is_a_one_line_error_without_the_password(tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    with pytest.raises(StoreError, match="cannot be reached or written") as caught:
        PostgresStore(f"postgresql://me:secret@/none?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_sqlite_settings_are_durable(tmp_path):
    store = SqliteStore(tmp_path / "events.sqlite")
    settings = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete")
    }
    assert settings == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert (tmp_path / "events.sqlite").stat().st_mode & 0o777 == 0o600
    store.close()
    assert sqlite3.threadsafety


@pytest.mark.parametrize("end", ["", "-wal", "-shm"])
@pytest.mark.parametrize("replaced", [False, True])
def test_no_event_is_acknowledged_after_the_file_is_removed(live, tmp_path, end, replaced):
    live.check_store()
    file = tmp_path / "shop" / f"events.sqlite{end}"
    kept = file.rename(tmp_path / "aside")
    if replaced:
        file.write_bytes(kept.read_bytes())
    for call in (
        lambda: live.observe({**EVENT, "item": 12}),
        lambda: live.recommend(7, confidence=0.9),
        live.check_store,
    ):
        with pytest.raises(StoreError, match="was removed or replaced while it was open") as raised:
            call()
        assert raised.value.reason == "file removed or replaced"
    kept.rename(file)  # restored, and nothing was lost
    live.check_store()
    assert live.observe({**EVENT, "item": 12}).ingested == 1
    assert live.status().n_events == 2


def test_damaged_pages_are_a_store_error_until_reopened(live, tmp_path):
    live._state.store.compact()
    file = tmp_path / "shop" / "events.sqlite"
    whole = file.read_bytes()
    with file.open("r+b") as pages:
        pages.write(b"\x5a" * len(whole))
    live._state.store._connection.execute(
        "PRAGMA shrink_memory"
    )  # pages are read from the file again
    with pytest.raises(StoreError, match="Restore it from a backup") as raised:
        live.observe({**EVENT, "item": 12})
    assert raised.value.reason == "damaged"
    with file.open("r+b") as pages:
        pages.write(whole)
    with pytest.raises(StoreError, match="Restore it from a backup"):  # until it is opened again
        live.check_store()


@pytest.mark.parametrize(
    ("name", "value"), [("base", "null"), ("base", "{}"), ("ledger", "[]"), ("ledger", "{")]
)
def test_invalid_values_are_a_store_error(live, tmp_path, name, value):
    with sqlite3.connect(tmp_path / "shop" / "events.sqlite") as other:
        other.execute("UPDATE surerec_meta SET value = ? WHERE name = ?", (value, name))
    other.close()
    with pytest.raises(StoreError, match="Restore it from a backup"):
        live.recommend(7, confidence=0.9)


def test_an_unreadable_model_is_a_store_error(live, tmp_path):
    for file in (tmp_path / "shop" / "models" / "000001").iterdir():
        file.unlink()
    live._state._is_stale = True  # as after a transaction that failed
    with pytest.raises(StoreError) as raised:
        live.observe({**EVENT, "item": 12})
    assert raised.value.reason == "model cannot be read"
