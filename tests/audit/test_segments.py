"""Observed level of each segment: one threshold for all, or one per segment."""

import re

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import at_headline, audit
from surerec.interactions import pool_segments

SHARES = {"AT": 0.25, "DE": 0.45, "FR": 0.25, "LU": 0.02, "MT": 0.03}


@pytest.fixture(scope="module")
def films():
    """Interactions in which users of FR consume at random, so that one threshold fails them."""
    made = sr.datasets.synthetic(n_users=500, n_items=120, n_rows=16_000, sequels=0, random_state=1)
    rows, rng = made.to_frame(), np.random.default_rng(0)
    odd = pl.Series(made.items.ids.to_numpy()[rng.integers(0, 120, len(rows))])
    is_odd = rows["user_id"].replace_strict(countries(made)) == "FR"
    rows = rows.with_columns(item_id=pl.when(is_odd).then(odd).otherwise("item_id"))
    return sr.read_interactions(rows, name="shop")


def countries(data):
    drawn = np.random.default_rng(3).choice(list(SHARES), data.n_users, p=list(SHARES.values()))
    return dict(zip(data.users.ids.to_list(), drawn.tolist(), strict=True))


@pytest.fixture(scope="module")
def marginal(films):
    segments = {"segments": "country", "user_segments": countries(films)}
    return audit(films, "CM12", n_users=450, **segments)


@pytest.fixture(scope="module")
def fitted(films):
    model = sr.PopulationConformal("CM12", segments="country").fit(
        films, user_segments=countries(films)
    )
    return audit(model, n_users=450)


def by_country(found):
    rows = at_headline(found.segments).filter(kind="recall-score", by="country").to_dicts()
    return {row["segment"]: row for row in rows}


def test_a_finding_names_the_segment_that_one_threshold_fails(marginal):
    rows = by_country(marginal)
    assert list(rows) == ["AT", "DE", "FR", "other"]
    assert [name for name, row in rows.items() if row["high"] < 0.9] == ["FR"]
    (finding,) = (each for each in marginal.findings if "country 'FR'" in each)
    assert "The guarantee is over all users, not per country" in finding
    assert "--segments country --user-segments users.csv --pool-below 20" in finding
    assert "country 'DE'" not in finding


def test_calibration_per_segment_reaches_the_nominal_level(fitted, marginal):
    rows, before = by_country(fitted), by_country(marginal)
    assert all(row["high"] >= 0.9 for row in rows.values())
    assert rows["FR"]["observed"] > before["FR"]["observed"]
    assert rows["FR"]["size"] > before["FR"]["size"]
    assert not any("country" in each for each in fitted.findings)


def test_small_segments_are_named_and_pooled(films, marginal, fitted):
    for found in (marginal, fitted):
        (pooled,) = (note for note in found.notes if note.startswith("Segments with fewer than 20"))
        assert all(words in pooled for words in ("LU (", "MT (", "are pooled as 'other'"))
    assert "a segment with fewer than 9 calibration users contains every item" in pooled
    assert "pool_segments(users, 'country', min_users=20)" in pooled
    assert set(pool_segments(countries(films), min_users=20).values()) == {
        "AT",
        "DE",
        "FR",
        "other",
    }


@pytest.fixture(scope="module")
def few():
    return sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1200, sequels=0, random_state=1)


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"segments": "plan"}, "names a column, but user_segments= is missing. Pass a mapping"),
        ({"segments": {1: "a"}}, "segments must be the name of a column"),
    ],
)
def test_incomplete_segments_raise(few, given, message):
    with pytest.raises(sr.InputError, match=message):
        audit(few, **given)


def test_the_command_reads_segments_from_the_data(few, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = pl.Series("plan", ["ab"[user % 2] for user in few.to_frame()["user_id"]])
    few.to_frame().with_columns(plan).write_csv("orders.csv")
    done = cli("audit", "orders.csv", "--segments", "plan", "--window", "300")
    assert done.code == 0
    assert re.search(r"User-level +plan +a ", done.out)
    assert "The guarantee is over all users, not per plan." in " ".join(done.out.split())
    assert cli("audit", "orders.csv", "--user-segments", "orders.csv").code == 2
    missing = cli("audit", "synthetic:n_users=60,n_items=30,n_rows=1200", "--segments", "plan")
    missing.assert_refused("--user-segments")


def test_fit_pools_small_segments(few, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few.to_frame().write_csv("orders.csv")
    ids = few.users.ids.to_list()
    plan = ["big"] * (len(ids) - 2) + ["one", "two"]
    pl.DataFrame({"user_id": ids, "plan": plan}).write_csv("users.csv")
    options = ("--recommender", "recall-cm3", "--segments", "plan", "--user-segments", "users.csv")
    assert cli("fit", "orders.csv", "model", *options, "--pool-below", "2").code == 0
    assert sr.load(tmp_path / "model").model_.segments.names == ("big", "other")
    wrong = cli("fit", "orders.csv", "model", "--pool-below", "2")
    wrong.assert_refused("--pool-below pools the segments of a file; add --user-segments")
