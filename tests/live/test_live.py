"""Live models: events are ingested once and durably, and evaluated before they are ingested."""

from __future__ import annotations

import os
import sys
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError, StoreError, UnknownIdError
from surerec.live import Ledger, Live, LiveTerms
from surerec.measures import Query
from tests.precedence.test_growing import assert_same

HOUR = 3_600


@pytest.fixture
def store(place):
    return "sqlite" if isinstance(place, Path) else place


@pytest.fixture
def live(tmp_path, model, store):
    with Live.create(tmp_path / "shop", model, store=store, refit=False) as made:
        yield made


def stream(films, n, random_state=0):
    """Yield events of known and new users and items, some of them late or repeated."""
    rng = np.random.default_rng(random_state)
    end = int(films.times.max()) // 1_000_000
    for k in range(n):
        late = -int(rng.integers(1, 900 * 24)) * HOUR if rng.random() < 0.1 else 0
        yield {
            "user": int(rng.choice(films.users.ids.to_numpy()))
            if rng.random() < 0.9
            else int(rng.integers(9_000, 9_010)),
            "item": int(rng.integers(1, 56)) if rng.random() < 0.95 else 777 + k % 3,
            "time": end + k * HOUR + late,
        }


def refitted(live, tmp_path):
    live.export(tmp_path / "all.parquet")
    return sr.count_precedence(sr.read_interactions(tmp_path / "all.parquet"))


def answers(live):
    sets = [live.recommend(user, confidence=0.8) for user in (2, 5, 9)]
    return [
        (each.to_frame().fill_nan(None).rows(), each.guarantee) for each in sets
    ], live.observed().rows()


def test_counts_are_those_of_a_fit_on_all_events(live, films, tmp_path):
    log = list(stream(films, 150))
    first, second = live.observe(log[:100]), live.observe(log[100:])
    assert first.ingested + second.ingested == live.status().n_events == 150
    for found in (first, second):
        assert found.evaluated + sum(found.not_evaluated.values()) == found.ingested
    assert set(live.status().not_evaluated) >= {"repeat", "late", "new item"}
    assert live.status().n_evaluated == first.evaluated + second.evaluated
    assert_same(live._state.growing.statistics, refitted(live, tmp_path))
    # And of a fit of the events as they came, behind the data.
    base = films.to_frame().rows()
    rows = base + [(e["user"], e["item"], _datetime(e["time"])) for e in log]
    frame = pl.DataFrame(rows, schema=["user_id", "item_id", "datetime"], orient="row")
    assert_same(live._state.growing.statistics, sr.count_precedence(sr.read_interactions(frame)))


def _datetime(seconds):
    return np.datetime64(seconds, "s").astype("datetime64[us]").item()


def test_an_event_is_evaluated_against_the_set_before_it(live, films, model):
    place = int(np.argmax(np.diff(films.offsets) == 20))  # of whom enough is known
    user, end = int(films.users[place]), int(films.times.max()) // 1_000_000
    item = int(live.recommend(user, confidence=0.9).items[-1])
    inside = {c: item in live.recommend(user, confidence=c).items for c in (0.7, 0.8, 0.9)}
    code, query = films.items.code(item), Query.of_user(films, place)
    level = model.model_.assess(query, np.array([code])).levels_below[0]
    live.observe({"user": user, "item": item, "time": end + 1})
    adaptive = live._state.ledger.adaptive
    assert adaptive == Ledger.start(LiveTerms()).adaptive.after(level)
    assert [n == 0 for n in adaptive.errors] == [inside[c] for c in (0.9, 0.8, 0.7)]
    assert item not in live.recommend(user, confidence=0.9).items


def test_duplicates_change_nothing(live, films):
    log = [{**event, "id": f"e{k}"} for k, event in enumerate(stream(films, 40))]
    live.observe(log)
    before = answers(live), live.status()
    repeated = live.observe(log + log[:5])
    assert (repeated.ingested, repeated.duplicates) == (0, 45)
    assert (answers(live), live.status()) == before
    by_content = {"user": 2, "item": 900, "time": 5}
    assert live.observe([by_content, by_content]).ingested == 1
    assert live.observe(by_content).duplicates == 1


def test_a_restart_changes_no_answer(live, films, tmp_path):
    live.observe(stream(films, 120))
    live.forget(films.users[3])
    live.observe(stream(films, 60, random_state=1))
    before, counts = answers(live), live._state.growing.statistics
    live.close()
    with Live(tmp_path / "shop", refit=False) as again:
        assert answers(again) == before
        assert_same(again._state.growing.statistics, counts.settled())


def test_events_that_cannot_be_stored_change_nothing(tmp_path, model, films):
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        live.observe(stream(films, 30))
        before = answers(live)
        connection = live._state.store._connection
        pages = connection.execute("PRAGMA page_count").fetchone()[0]
        connection.execute(f"PRAGMA max_page_count = {pages}")
        with pytest.raises(StoreError, match="the disk is full"):
            live.observe(stream(films, 900, random_state=5))
        connection.execute("PRAGMA max_page_count = 1000000")
        assert answers(live) == before
        assert live.status().n_events == 30
        live.observe(stream(films, 30, random_state=6))
        assert_same(live._state.growing.statistics, refitted(live, tmp_path))


def test_future_events_are_refused_with_one_alert_a_day(live, films):
    user, end = films.users[3], int(films.times.max()) // 1_000_000
    items = live.recommend(user, confidence=0.9).items
    event = {"user": user, "item": items[0], "time": "2999-01-01T00:00:00Z"}
    message = r"2999-01-01T00:00:00\+00:00 is more than 5 minutes ahead of the server's clock"
    for n in range(3):
        with pytest.raises(InputError, match=f"Event 2: the time {message}"):
            live.observe([{**event, "time": end + n}, event])
    status = live.status()
    assert status.n_events == 0
    (alert,) = status.alerts
    assert "Refused: Event 2: the time 2999-01-01" in alert
    assert live.observe({**event, "time": end + 9}).evaluated == 1  # not late


def test_the_guarantee_reports_the_observed_coverage(live, films):
    none = str(live.recommend(2, confidence=0.9).guarantee)
    assert "no event has been evaluated yet" in none
    assert "with each user and day counted once" in none
    live.observe(stream(films, 250))
    result = live.recommend(2, confidence=0.9)
    adaptive = live._state.ledger.adaptive
    assert f"over {adaptive.user_days:,} user days" in str(result.guarantee)
    assert f"of {adaptive.n:,} evaluated events" in str(result.guarantee)
    assert result.confidence == 0.9
    for place, epsilon in enumerate(adaptive.epsilons):
        assert abs(adaptive.observed_by_user_day()[place] - epsilon) <= adaptive.bound(place)
    other = live.recommend(2, confidence=0.85).guarantee
    assert other.reason == "live guarantees are given only at the confidence levels 0.7, 0.8, 0.9"
    short = live.recommend(2, confidence=0.9, k=1).guarantee
    assert (short.reason, short.full) == ("the set was truncated to 1 item", result.guarantee)
    assert live.recommend(history=[5], confidence=0.9).guarantee.reason == (
        "this user has 1 known item, and calibration users had at least 5"
    )
    rows = live.observed()
    assert rows["confidence"].to_list() == [0.9, 0.8, 0.7]
    assert rows["n"].to_list() == [adaptive.n] * 3
    np.testing.assert_allclose(1 - rows["observed"], adaptive.observed())


def test_a_refit_includes_events_that_arrive_during_it(live, films, tmp_path):
    live.observe(stream(films, 100))
    live.refit(wait=False)
    live.observe(stream(films, 60, random_state=1))
    live.forget(films.users[7])
    live.refit()
    status = live.status()
    assert status.n_events >= 150
    assert live._state.growing.statistics.n_added < 160
    assert_same(live._state.growing.statistics, refitted(live, tmp_path))
    assert len(list((tmp_path / "shop" / "models").iterdir())) == 1
    before = answers(live)
    live.close()
    with Live(tmp_path / "shop", refit=False) as again:
        assert answers(again) == before


def test_a_failed_background_refit_raises_an_alert_and_waits(
    tmp_path, model, films, monkeypatch, caplog
):
    monkeypatch.setattr("surerec.live._live._LEAST_GROWN", 100)
    with Live.create(tmp_path / "shop", model) as live:
        with monkeypatch.context() as broken:
            full = OSError(28, "No space left on device", str(tmp_path / "shop" / "models"))
            broken.setattr(sr.PopulationConformal, "save", _raises(full))
            live.observe(stream(films, 400))
            refit = live._refit._running
            assert isinstance(refit.exception(), OSError)
        alert, n_alerts = live.status().alerts[-1], live._state.ledger.n_alerts
        assert "Refit failed (No space left on device; see the log for details)" in alert
        assert str(tmp_path) not in alert
        (line,) = [each for each in caplog.records if each.name == "surerec.live"]
        assert str(tmp_path) in line.fields["reason"]
        live.observe({"user": 7, "item": 900, "time": 5})
        assert live._refit._running is refit  # no immediate retry
        live.refit()
        assert live._state.base == 2
        with monkeypatch.context() as broken:  # a caller that waits gets the error
            broken.setattr(sr.PopulationConformal, "save", _raises(OSError("away")))
            with pytest.raises(OSError, match="away"):
                live.refit()
        assert live._state.ledger.n_alerts == n_alerts


def _raises(error):
    def fails(*_, **__):
        raise error

    return fails


def test_commands_work_beside_a_server(tmp_path, model, films, cli):
    shop = tmp_path / "shop"
    with Live.create(shop, model, refit=False) as served:
        served.observe(stream(films, 50))
        assert "50 events" in cli("live", "status", shop).out
        assert "Refitted " in cli("live", "refit", shop).err
        assert cli("live", "forget", shop, films.users[4]).code == 0
        assert cli("live", "export", shop, tmp_path / "all.parquet").code == 0
        lost = cli("live", "export", shop, tmp_path / "no" / "all.parquet")
        lost.assert_refused("cannot be written")
        refused = cli("live", "ingest", shop, tmp_path / "all.parquet")
        refused.assert_refused("Run one server at a time")
        with pytest.raises(UnknownIdError):  # the server sees their changes
            served.recommend(films.users[4], confidence=0.9)
        served.observe(stream(films, 30, random_state=1))
        assert served._state.base == 2
        assert_same(served._state.growing.statistics, refitted(served, tmp_path))


def test_two_servers_share_one_stream(tmp_path, model, films, postgres):
    log = list(stream(films, 90))
    with (
        Live.create(tmp_path / "shop", model, store=postgres(), refit=False) as one,
        Live(tmp_path / "shop", refit=False) as two,
    ):
        for k in range(0, 90, 10):
            (one, two)[k // 10 % 2].observe(log[k : k + 10])
        one.forget(films.users[5])
        assert answers(one) == answers(two)
        assert_same(two._state.growing.statistics, refitted(one, tmp_path))
        one.refit()
        assert answers(one) == answers(two)
    with Live.create(tmp_path / "alone", model, refit=False) as alone:
        for k in range(0, 90, 10):
            alone.observe(log[k : k + 10])
        assert alone._state.ledger.adaptive == one._state.ledger.adaptive


def test_threads_send_events_and_requests_in_parallel(tmp_path, model, films):
    log = list(stream(films, 160))
    with Live.create(tmp_path / "shop", model, refit=False) as live:

        def send(part):
            for k in range(part, 160, 4):
                live.observe([log[k]])
                live.recommend(films.users[k % 50], confidence=0.8)

        with ThreadPoolExecutor(4) as pool:
            list(pool.map(send, range(4)))
        assert live.status().n_events == 160
        assert_same(live._state.growing.statistics, refitted(live, tmp_path))


class Fitted:
    def score(self, history, *, without_user=None):  # noqa: ARG002
        return np.arange(50, 0, -1.0)


@pytest.mark.parametrize(
    ("made", "message"),
    [
        (lambda: sr.InductiveConformal("CM12"), "needs user-level calibration"),
        (
            lambda: sr.PopulationConformal(guarantee="precision"),
            "precision guarantee cannot be live",
        ),
        (lambda: sr.PopulationConformal("als"), "cannot be updated with events"),
        (lambda: sr.PopulationConformal(Fitted()), "is already fitted and cannot be refitted"),
    ],
)
def test_models_that_cannot_be_live_are_refused(tmp_path, films, made, message):
    with pytest.raises(InputError, match=message):
        Live.create(tmp_path / "shop", made().fit(films))
    assert not (tmp_path / "shop").exists()


def test_invalid_folders_are_refused(tmp_path, model):
    with pytest.raises(InputError, match="is not a live model: it has no live"):
        Live(tmp_path / "nowhere")
    (tmp_path / "full").mkdir()
    (tmp_path / "full" / "file").touch()
    with pytest.raises(InputError, match="exists and is not empty"):
        Live.create(tmp_path / "full", model)
    Live.create(tmp_path / "shop", model).close()
    about = tmp_path / "shop" / "live.json"
    about.write_text(about.read_text().replace('"version": 1', '"version": 9'))
    with pytest.raises(InputError, match="of version 9, but this surerec reads version 1"):
        Live(tmp_path / "shop")
    about.write_text("{")
    with pytest.raises(InputError, match="is damaged"):
        Live(tmp_path / "shop")


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
def test_only_its_owner_can_read_the_models_of_a_live_folder(model, tmp_path):
    with Live.create(tmp_path / "shop", model, refit=False) as live:
        assert modes_of_models(tmp_path / "shop") == {0o700, 0o600}
        live.observe({"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"})
        live.refit()
        assert modes_of_models(tmp_path / "shop") == {0o700, 0o600}
    assert (tmp_path / "shop" / "live.json").stat().st_mode & 0o777 == 0o600


def modes_of_models(folder):
    models = folder / "models"
    return {each.stat().st_mode & 0o777 for each in (folder, models, *models.rglob("*"))}


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_paths_that_are_not_utf_8_are_refused(cli, model, tmp_path):
    bad = os.fsdecode(b"caf\xe9")
    with pytest.raises(InputError, match="is not valid UTF-8"):
        Live.create(tmp_path / bad, model)
    Live.create(tmp_path / "shop", model).close()
    ran = cli("live", "export", tmp_path / "shop", tmp_path / f"{bad}.parquet")
    ran.assert_refused("is not valid UTF-8")
    assert [each.name for each in tmp_path.iterdir()] == ["shop"]
