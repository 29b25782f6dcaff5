"""Limits on new items, and the size of models with many new items."""

from __future__ import annotations

import json

import numpy as np
import pytest

import surerec as sr
from surerec.live import Live, LiveTerms

LATE = "2024-05-01T12:00:00Z"


def events(items, user=7):
    return [{"user": user, "item": item, "time": LATE} for item in items]


def test_new_items_above_the_limit_of_a_day_are_refused(tmp_path, small_model, monkeypatch):
    day = ["2026-11-17"]
    monkeypatch.setattr("surerec.live._live.today", lambda: day[-1])
    terms = LiveTerms(new_items_per_day=3)
    with Live.create(tmp_path / "shop", small_model, terms=terms, refit=False) as live:
        found = live.observe(events(range(900, 905)))
        assert (found.ingested, found.refused) == (3, 2)
        assert "the limit of 3 new items on 2026-11-17 is reached" in found.alerts[0]
        again = live.observe(events(range(900, 905)))
        assert (again.duplicates, again.refused, again.alerts) == (3, 2, ())  # one alert a day
        known = live.observe(events([900, 901, 902], user=8))  # as they are not new any more
        assert (known.ingested, known.refused) == (3, 0)
        assert live._state.growing.statistics.n_items == 33
        assert live.status().n_events == 6
        assert live.status().not_evaluated["new item above the limit"] == 4
        day.append("2026-11-18")
        tomorrow = live.observe(events(range(900, 905)))  # refused events can be sent again
        assert (tomorrow.ingested, tomorrow.duplicates, tomorrow.refused) == (2, 3, 0)
        live.refit()
    with Live(tmp_path / "shop", refit=False) as live:
        assert live.observe(events([905, 906])).refused == 1


def test_new_items_above_the_limit_in_total_are_refused(tmp_path, small_model):
    folder = tmp_path / "shop"
    with Live.create(folder, small_model, terms=LiveTerms(new_items=4), refit=False) as live:
        found = live.observe(events(range(900, 910)))
        assert (found.ingested, found.refused) == (4, 6)
        assert "4 new items since this model was created" in found.alerts[0]
        live.refit()
        assert live.observe(events([910])).refused == 1
    about = json.loads((folder / "live.json").read_text())
    assert (about["new_items"], about["new_items_per_day"]) == (4, 1000)
    (folder / "live.json").write_text(json.dumps({**about, "new_items": 5}))
    with Live(folder, refit=False) as live:
        assert live.observe(events([910, 911])).refused == 1


@pytest.mark.parametrize(("n_items", "limits"), [(40, (1000, 10_000)), (50_000, (5000, 50_000))])
def test_limits_follow_the_size_of_the_model(n_items, limits):
    terms = LiveTerms().for_items(n_items)
    assert (terms.new_items_per_day, terms.new_items) == limits
    assert LiveTerms(new_items=7, new_items_per_day=0).for_items(n_items).new_items == 7


@pytest.mark.parametrize("per_user", [1, 6_000], ids=["a user for each item", "one user"])
def test_the_folder_grows_linearly_with_new_items(tmp_path, small_model, per_user):
    folder, n_new = tmp_path / "shop", 6_000
    given = [
        {"user": 900 + place // per_user, "item": 9_000 + place, "time": LATE}
        for place in range(n_new)
    ]
    terms = LiveTerms(new_items_per_day=n_new, new_items=n_new)
    with Live.create(folder, small_model, terms=terms, refit=False) as live:
        assert live.observe(given).ingested == n_new
        live.refit()
        profiles = live._state.growing.profiles.settled()
        n_bytes = sum(each.stat().st_size for each in (folder / "models").rglob("*"))
        assert n_bytes < 3_000 * profiles.n_rows  # 144 MB if all pairs of items were stored
        dense = sr.PopulationConformal("CM12", n_calibration=20)
        dense.fit(sr.count_precedence(profiles, strategy="dense"))
        refitted = live._state.growing.model
        for user in (1, 7, 30, 900):
            mine, theirs = (
                each.recommend(user, significance=1e-9, k=n_new + 30) for each in (refitted, dense)
            )
            assert mine.items == theirs.items
            for name, column in theirs.columns.items():
                np.testing.assert_array_equal(mine.columns[name], column, err_msg=name)


def test_a_refit_keeps_the_ties_option(tmp_path):
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1000, random_state=1)
    strict = sr.PopulationConformal("CM12", n_calibration=20)
    strict.fit(sr.count_precedence(films, ties="strict"))
    with Live.create(tmp_path / "shop", strict, refit=False) as live:
        live.observe(events([1, 2, 3]))
        live.refit()
        assert live._state.growing.statistics.ties == "strict"
