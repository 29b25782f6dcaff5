"""Tests of the ``surerec live`` commands."""

from __future__ import annotations

import io
import json
import sys

import polars as pl
import pytest

import surerec as sr


@pytest.fixture
def shop(model, tmp_path):
    sr.Live.create(tmp_path / "shop", model).close()
    return tmp_path / "shop"


@pytest.fixture(scope="module")
def shared_shop(model, tmp_path_factory):
    """A live model for events that are all invalid."""
    folder = tmp_path_factory.mktemp("shared") / "shop"
    sr.Live.create(folder, model).close()
    return folder


def test_init_creates_a_live_model_or_explains_why_not(cli, model, tmp_path):
    films = tmp_path / "films"
    model.save(films)
    for arguments, message in (
        ((tmp_path / "shop", films, "--confidences", "high"), "--confidences is 'high'"),
        (
            (tmp_path / "shop", films, "--store", "mysql://x"),
            "Use 'sqlite' or a PostgreSQL address",
        ),
        ((tmp_path / "shop", tmp_path / "nowhere"), "There is no folder"),
    ):
        cli("live", "init", *arguments).assert_refused(message)
    done = cli("live", "init", tmp_path / "shop", films)
    assert (done.code, done.out) == (0, "")
    assert "from recall-cm12" in done.err


def test_events_of_a_file_are_ingested_once(cli, shop, write):
    lines = "user,item,time\n" + "".join(
        f"{u},{i},2024-01-0{i}T00:00:00Z\n" for u in range(1, 9) for i in range(1, 6)
    )
    path = write("events.csv", lines)
    first = cli("live", "ingest", shop, path, "--batch", "7")
    assert first.code == 0
    assert "Ingested: " in first.err
    again = cli("live", "ingest", shop, path)
    assert "40 duplicates" in again.err
    status = json.loads(cli("live", "status", shop, "--json").out)
    assert status["n_events"] == 40
    assert status["nominal"] == [0.9, 0.8, 0.7]
    assert "40 events" in cli("live", "status", shop).out


def test_status_reports_user_days_and_the_heaviest_users(cli, shop):
    with sr.Live(shop, refit=False) as live:
        items = live.recommend(7, confidence=0.9).items[:3]
        n = live.observe([{"user": 7, "item": item} for item in items]).evaluated
    assert n
    shown = cli("live", "status", shop, "--heaviest").out
    assert f"{n} evaluated (items new to the user) on 1 user day" in shown
    assert "The heaviest 1% of users sent 100% of today's evaluated events." in shown
    assert f"7: {n} evaluated today, 100%" in shown
    said = json.loads(cli("live", "status", shop, "--heaviest", "--json").out)
    assert said["heaviest_users"] == [{"user_id": "7", "evaluated": n, "share": 1.0}]
    assert (said["n_user_days"], said["heaviest_share"]) == (1, 1.0)
    assert len(said["observed_by_user_day"]) == 3


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (
            '{"user": 7, "item": 900, "id": "a"}\n\n{"user": 7, "item": 901, "time": 1700000000}\n',
            "1 new item, 1 late",
        ),
        (
            "customer,Product ID,purchased_at\n7,900,2024-05-01 12:00\n7,901,1700000000\n",
            "1 new item, 1 late",
        ),
        ("", "Ingested: no events."),
    ],
)
@pytest.mark.parametrize("given", ["file", "stdin"])
def test_ingest_reads_json_lines_and_csv(cli, shop, write, monkeypatch, given, lines, message):
    monkeypatch.setattr(sys, "stdin", io.StringIO(lines))
    file = write("orders", lines) if given == "file" else "-"
    assert message in cli("live", "ingest", shop, file).err


@pytest.mark.parametrize(
    ("lines", "message"),
    [
        (None, "line 1: the event has more than 1,048,576 characters"),
        ("user,item\n1\n", "line 2: the row and the header have different numbers of cells"),
        ('{"user": 1, "item": 2}\nnonsense\n', "line 2: not a JSON object"),
        ("user,item,film\n1,2,3\n", "line 2 has the unknown field 'film'"),
        ("\n7,11\n", "line 2: neither a JSON object nor a CSV header"),
        ("user,user_id,item\n1,1,2\n", "line 1: a column name appears twice"),
        ("user,item,time\n1,2,yesterday\n", "line 2: cannot parse time 'yesterday'. Use an ISO"),
        ("user,item\n1,2\n\nann,2\n", "line 4: The user 'ann' is not a valid id. User ids"),
        (b"user,item\n\xff,2\n", "not valid UTF-8"),
        ('{"user": 7, "item": 8, "id": ' + "[" * 100_000, "line 1: not a JSON object"),
        ('{"user": ' + "[" * 900 + "]" * 900 + ', "item": 8}', "line 1: user is "),
        ("user,item\n7," + "8" * 131_073 + "\n", "line 2: invalid CSV (field larger"),
        ("user,item\n7,8\n" + "9" * (1 << 20) + "1\n", "line 3: the event has more than 1,048,576"),
        ('user,item\n7,"' + '\n","' * 300_000, "the event has more than 1,048,576 characters"),
    ],
)
def test_invalid_events_are_one_line_errors(cli, shared_shop, write, lines, message):
    done = cli("live", "ingest", shared_shop, write("events", lines) if lines else "/dev/zero")
    done.assert_refused(message)
    assert done.err.count("\n") == 1


def test_events_before_a_bad_line_are_kept(cli, shop, write):
    lines = '\n{"user": 7, "item": 900}\n{"user": 7, "item": 901}\n{"user": 7}\n'
    done = cli("live", "ingest", shop, write("e.jsonl", lines), "--batch", "2")
    done.assert_refused("Ingested and committed before the error: 2 new item.")
    assert "e.jsonl, line 4 has no item." in done.err.replace("\n", "")
    assert "2 events" in cli("live", "status", shop).out


def test_csv_ids_are_strings_and_times_may_be_fractions(cli, films, write, tmp_path):
    named = films.to_frame().with_columns(pl.format("{}a", "user_id").alias("user_id"))
    model = sr.PopulationConformal("CM12", n_calibration=50).fit(sr.read_interactions(named))
    sr.Live.create(tmp_path / "shop", model).close()
    lines = (
        "\ufeffuser_id,item_id,timestamp\n007,3,1700000000.5\n7,3,1700000000\n1_0,3,1700000000\n"
    )
    done = cli("live", "ingest", tmp_path / "shop", write("e.csv", lines))
    assert done.code == 0, done.err
    cli("live", "export", tmp_path / "shop", tmp_path / "all.parquet")
    kept = pl.read_parquet(tmp_path / "all.parquet").filter(pl.col("datetime").dt.year() == 2023)
    assert sorted(kept["user_id"]) == ["007", "1_0", "7"]
    assert kept.filter(user_id="007")["datetime"].dt.microsecond().item() == 500_000
