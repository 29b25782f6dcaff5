"""Events are kept once, in order, or not at all: the same on SQLite and on PostgreSQL."""

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


def event(seq, person="ann", item="alien", verdict="judged"):
    return StoredEvent(seq, f"key {seq}", person, item, 1_000_000 * seq, verdict)


def test_what_is_written_is_there_when_it_is_opened_again(open_store):
    with open_store().writing() as transaction:
        transaction.append([event(1), event(2, "bob", "brazil", "new item")])
        transaction.put("state", {"cuts": [0.1, 0.2]})
    with open_store().reading() as transaction:
        assert list(transaction.events()) == [event(1), event(2, "bob", "brazil", "new item")]
        assert list(transaction.events(after=1)) == [event(2, "bob", "brazil", "new item")]
        assert transaction.get("state") == {"cuts": [0.1, 0.2]}
        assert transaction.get("nothing") is None
        assert transaction.last() == transaction.count() == 2
        assert transaction.known_keys(["key 1", "key 7", *map(str, range(1000))]) == {"key 1"}


def test_all_of_a_transaction_is_kept_or_nothing(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1)])

    def half():
        with store.writing() as transaction:
            transaction.append([event(2)])
            transaction.put("state", 2)
            raise RuntimeError

    with pytest.raises(RuntimeError):
        half()
    with store.reading() as transaction:
        assert transaction.count() == transaction.last() == 1
        assert transaction.get("state") is None


def test_no_key_is_there_twice(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1)])
    with pytest.raises(StoreError, match="lost: send it again"), store.writing() as again:
        again.append([event(1)._replace(seq=2)])
    with store.reading() as transaction:
        assert transaction.count() == 1


def test_a_forgotten_person_is_gone_and_named_until_the_recount(open_store):
    store = open_store()
    with store.writing() as transaction:
        transaction.append([event(1), event(2, "bob"), event(3)])
        assert transaction.forget("ann") == 2
    with open_store().reading() as transaction:
        kept = [(each.seq, each.person, each.verdict) for each in transaction.events()]
        assert kept == [(2, "bob", "judged"), (4, "ann", "forgotten")]
        assert (transaction.count(), transaction.last()) == (1, 4)
    with open_store().writing() as transaction:
        assert transaction.forget("ann") == 0  # a forgetting is no event
        transaction.forget_names(until=5)
        assert [each.person for each in transaction.events()] == ["bob"]


def test_a_store_of_another_schema_is_refused(open_store):
    with open_store().writing() as transaction:
        transaction.put("schema", 99)
    with pytest.raises(InputError, match="events of schema 99, and this surerec knows 4"):
        open_store()


def test_a_file_that_is_no_store_is_refused(tmp_path):
    path = tmp_path / "events.sqlite"
    path.write_bytes(b"user,item,time\n" * 1000)
    with pytest.raises(StoreError, match="is no event store that can be read"):
        SqliteStore(path)


def test_two_processes_do_not_share_a_file(tmp_path):
    store = SqliteStore(tmp_path / "events.sqlite")
    with pytest.raises(
        InputError, match="open: one server at a time, or keep events in PostgreSQL"
    ):
        SqliteStore(tmp_path / "events.sqlite")
    store.close()
    SqliteStore(tmp_path / "events.sqlite").close()


@pytest.mark.parametrize("free", [0, 1 << 30])
def test_an_error_of_the_disk_is_told_by_its_cause(tmp_path, monkeypatch, free):
    """As where the index of the log cannot be made: SQLite calls that an error of the disk."""
    store = SqliteStore(tmp_path / "events.sqlite")
    monkeypatch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=free))
    says = "cannot be read or written" if free else "the disk is full; nothing of this was kept"
    error = sqlite3.OperationalError("disk I/O error")
    error.sqlite_errorcode = sqlite3.SQLITE_IOERR | 18 << 8
    with pytest.raises(StoreError, match=says), store.writing():
        raise error
    store.close()


def test_nobody_waits_for_ever_for_a_server_that_stands_still(postgres, monkeypatch):
    monkeypatch.setattr("surerec.live._store._SECONDS", 1)
    address = postgres()
    still, other = PostgresStore(address), PostgresStore(address)
    with still.writing() as transaction:
        transaction.append([event(1)])
        with pytest.raises(StoreError, match="lock timeout"), other.writing():
            pass
        with other.reading() as reading:  # whoever only asks does not wait
            assert reading.count() == 0
    with other.writing() as transaction:
        assert transaction.count() == 1
    for store in (still, other):
        store.close()


def test_a_database_that_is_away_is_one_sentence_without_the_password(tmp_path):
    pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    with pytest.raises(StoreError, match="cannot be reached or written") as caught:
        PostgresStore(f"postgresql://me:secret@/none?host={tmp_path}")
    assert "secret" not in str(caught.value)
    assert "\n" not in str(caught.value)


def test_a_connection_that_was_cut_is_made_anew(postgres):
    store = PostgresStore(postgres())
    with store.writing() as transaction:
        transaction.append([event(1)])
    with store._psycopg.connect(store._address, autocommit=True) as other:
        other.execute(
            "SELECT pg_terminate_backend(pid) FROM pg_stat_activity "
            "WHERE pid <> pg_backend_pid() AND datname = current_database()"
        )
    threshold = pytest.raises(
        StoreError, match="was not acknowledged, and nothing that was is lost"
    )
    with threshold, store.writing() as transaction:
        transaction.append([event(2)])
    with store.writing() as transaction:
        assert transaction.count() == 1
        transaction.append([event(2)])
    store.close()


def test_the_pragmas_are_those_that_lose_nothing(tmp_path):
    store = SqliteStore(tmp_path / "events.sqlite")
    said = {
        name: store._connection.execute(f"PRAGMA {name}").fetchone()[0]
        for name in ("journal_mode", "synchronous", "secure_delete")
    }
    assert said == {"journal_mode": "wal", "synchronous": 2, "secure_delete": 1}
    assert (tmp_path / "events.sqlite").stat().st_mode & 0o777 == 0o600
    store.close()
    assert sqlite3.threadsafety


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
    assert live.observe({**EVENT, "item": 12}).consumed == 1
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
