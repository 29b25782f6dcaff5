"""Nominal and observed for each segment: one threshold for all, or one per segment."""

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
    """Users of whom those of FR consume at random, so that one threshold serves them worse."""
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


def own(found):
    rows = at_headline(found.groups).filter(kind="miss-score", by="country").to_dicts()
    return {row["group"]: row for row in rows}


def test_one_threshold_serves_segments_differently_and_a_finding_names_it(marginal):
    rows = own(marginal)
    assert list(rows) == ["AT", "DE", "FR", "other"]
    assert [name for name, row in rows.items() if row["high"] < 0.9] == ["FR"]
    (finding,) = (said for said in marginal.findings if "country 'FR'" in said)
    assert "The guarantee is over all users, not per country" in finding
    assert "--segments country --user-segments users.csv --pool-below 20" in finding
    assert "country 'DE'" not in finding


def test_each_segment_has_its_level_where_each_is_calibrated(fitted, marginal):
    rows, before = own(fitted), own(marginal)
    assert all(row["high"] >= 0.9 for row in rows.values())
    assert rows["FR"]["observed"] > before["FR"]["observed"]
    assert rows["FR"]["size"] > before["FR"]["size"]
    assert not any("country" in said for said in fitted.findings)


def test_small_segments_are_named_and_pooled(films, marginal, fitted):
    for found in (marginal, fitted):
        (said,) = (note for note in found.notes if note.startswith("Segments with fewer than 20"))
        assert all(words in said for words in ("LU (", "MT (", "They are pooled as 'other'"))
    assert "with fewer than 9 calibration users a segment gets every item" in said
    assert "pool_segments(users, 'country', min_users=20)" in said
    pooled = pool_segments(countries(films), min_users=20)
    assert set(pooled.values()) == {"AT", "DE", "FR", "other"}


@pytest.fixture(scope="module")
def few():
    return sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1200, sequels=0, random_state=1)


def test_segments_are_read_from_a_mapping_or_a_file(few, tmp_path):
    of = {user: "ab"[user % 2] for user in few.users.ids.to_list()}
    frame = pl.DataFrame({"user_id": list(of), "plan": list(of.values())})
    frame.write_csv(tmp_path / "users.csv")
    first, second = (
        audit(few, n_users=50, window=300, segments="plan", user_segments=source).groups
        for source in (of, tmp_path / "users.csv")
    )
    assert set(first.filter(by="plan")["group"]) == {"a", "b"}
    assert first.equals(second)


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({"segments": "plan"}, "names a column, and the segments of users are missing: pass user"),
        ({"user_segments": {1: "a"}}, "segments must be the name of a column"),
        ({"segments": {1: "a"}}, "segments must be the name of a column"),
    ],
)
def test_segments_that_are_not_clear(few, given, said):
    with pytest.raises(sr.InputError, match=said):
        audit(few, **given)


def test_the_command_reads_the_column_of_the_data(few, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    plan = pl.Series("plan", ["ab"[user % 2] for user in few.to_frame()["user_id"]])
    few.to_frame().with_columns(plan).write_csv("orders.csv")
    done = cli("audit", "orders.csv", "--segments", "plan", "--window", "300")
    assert done.code == 0
    assert re.search(r"User-level +plan +a ", done.out)
    assert "The guarantee is over all users, not in each plan." in " ".join(done.out.split())
    assert cli("audit", "orders.csv", "--user-segments", "orders.csv").code == 2
    missing = cli("audit", "synthetic:n_users=60,n_items=30,n_rows=1200", "--segments", "plan")
    assert missing.code == 2
    assert "--user-segments" in missing.err


def test_fit_pools_small_segments(few, cli, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    few.to_frame().write_csv("orders.csv")
    ids = few.users.ids.to_list()
    plan = ["big"] * (len(ids) - 2) + ["one", "two"]
    pl.DataFrame({"user_id": ids, "plan": plan}).write_csv("users.csv")
    groups = ("--recommender", "recall-cm3", "--segments", "plan", "--user-segments", "users.csv")
    assert cli("fit", "orders.csv", "model", *groups, "--pool-below", "2").code == 0
    assert sr.load(tmp_path / "model").model_.segments.names == ("big", "other")
    wrong = cli("fit", "orders.csv", "model", "--pool-below", "2")
    assert wrong.code == 2
    assert "--pool-below pools the segments of a file; add --user-segments" in wrong.err
