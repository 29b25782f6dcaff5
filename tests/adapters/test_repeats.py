"""Futures that repeat a user's past: refused with an offer, or dropped, counted and said."""

import polars as pl
import pytest

import surerec as sr
from tests.adapters.test_asking_badly import some

N_AGAIN = 37


@pytest.fixture(scope="module")
def again(halves):
    """The future with 37 rows that users have in their past."""
    past, future = (each.to_frame() for each in halves)
    moved = past.head(N_AGAIN).with_columns(datetime=pl.lit(future["datetime"].max()))
    return pl.concat([future, moved])


def test_the_refusal_counts_them_and_offers_to_drop_them(halves, again):
    said = (
        r"37 of the [\d,]+ rows of the future \(1\.\d%\) repeat an item of the user's past, such as"
        r' user .* and item .*\. .* items new to the user\. Drop them with repeats="drop"'
    )
    with pytest.raises(sr.InputError, match=said):
        some(halves).calibrate(halves[0], again)


def test_dropped_repeats_are_counted_and_said(halves, again, tmp_path):
    with pytest.warns(sr.LeftOutWarning, match=r"Dropped repeats: 37 of the .* such as user"):
        sure = some(halves).calibrate(halves[0], again, repeats="drop")
    without = some(halves).calibrate(*halves)
    user = halves[0].users[3]
    picks, same = (each.recommend(user, confidence=0.8) for each in (sure, without))
    assert picks.to_frame().equals(same.to_frame())
    assert "learned nothing from their future, from which 37 repeats were dropped" in (
        str(picks.guarantee)
    )
    assert "dropped" not in str(same.guarantee)
    sure.save(tmp_path / "model")
    back = sr.load(tmp_path / "model", scorer=sure.wrapped_)
    assert back.recommend(user, confidence=0.8).guarantee == picks.guarantee


def test_a_future_of_repeats_alone_and_an_unknown_choice(halves):
    past = halves[0]
    with pytest.raises(sr.InputError, match=r"\(100\.0%\) repeat .* Nothing is left to calibrate"):
        some(halves).calibrate(past, past, repeats="drop")
    with pytest.raises(sr.InputError, match="repeats is 'keep'"):
        some(halves).calibrate(*halves, repeats="keep")


def test_the_command_offers_it_too(halves, again, tmp_path, cli, monkeypatch):
    monkeypatch.chdir(tmp_path)
    past = halves[0]
    past.to_frame().write_csv("past.csv")
    again.write_csv("later.csv")
    n = past.n_items
    rows = {"user_id": [u for u in past.users.ids for _ in range(n)]}
    rows |= {"item_id": past.items.ids.to_list() * past.n_users}
    rows["score"] = [float(n - place) for place in range(n)] * past.n_users
    pl.DataFrame(rows).write_csv("scores.csv")
    files = ("--scores", "scores.csv", "--past", "past.csv", "--futures", "later.csv")
    refused = cli("calibrate", "model", *files)
    assert refused.code == 2
    assert "37 of the" in refused.err
    assert "--repeats drop" in refused.err
    done = cli("calibrate", "model", *files, "--repeats", "drop")
    assert done.code == 0
    assert "Dropped repeats: 37 of the" in " ".join(done.err.split())
    picks = cli("recommend", "model", "--user", str(past.users[3]), "--format", "json")
    assert "from which 37 repeats were dropped" in picks.out
