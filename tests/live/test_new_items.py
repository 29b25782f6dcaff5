"""Events may name new items up to a limit: the counts grow with the square of the items."""

from __future__ import annotations

import json

import pytest

import surerec as sr
from surerec.live import Live, Terms

LATE = "2024-05-01T12:00:00Z"


@pytest.fixture(scope="module")
def model():
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=1000, seed=1)
    return sr.PopulationConformal("CM12", n_calibration=20).fit(films)


def events(items, user=7):
    return [{"user": user, "item": item, "time": LATE} for item in items]


def test_new_items_above_the_limit_of_a_day_are_refused(tmp_path, model, monkeypatch):
    day = ["2026-11-17"]
    monkeypatch.setattr("surerec.live._live.today", lambda: day[-1])
    terms = Terms(new_items_per_day=3)
    with Live.create(tmp_path / "shop", model, terms=terms, recount=False) as live:
        found = live.observe(events(range(900, 905)))
        assert (found.taken, found.refused) == (3, 2)
        assert "there were 3 new items on 2026-11-17" in found.alarms[0]
        again = live.observe(events(range(900, 905)))
        assert (again.again, again.refused, again.alarms) == (3, 2, ())  # said once a day
        known = live.observe(events([900, 901, 902], user=8))  # as they are not new any more
        assert (known.taken, known.refused) == (3, 0)
        assert live._served.counts.n_items == 33
        assert live.status().n_events == 6
        assert live.status().not_judged["new item above the limit"] == 4
        day.append("2026-11-18")
        tomorrow = live.observe(events(range(900, 905)))  # what was refused may be sent again
        assert (tomorrow.taken, tomorrow.again, tomorrow.refused) == (2, 3, 0)
        live.recount()
    with Live(tmp_path / "shop", recount=False) as live:
        assert live.observe(events([905, 906])).refused == 1


def test_new_items_above_the_limit_in_total_are_refused(tmp_path, model):
    folder = tmp_path / "shop"
    with Live.create(folder, model, terms=Terms(new_items=4), recount=False) as live:
        found = live.observe(events(range(900, 910)))
        assert (found.taken, found.refused) == (4, 6)
        assert "4 new items since this model was created" in found.alarms[0]
        live.recount()
        assert live.observe(events([910])).refused == 1
    about = json.loads((folder / "live.json").read_text())
    assert (about["new_items"], about["new_items_per_day"]) == (4, 1000)
    (folder / "live.json").write_text(json.dumps({**about, "new_items": 5}))
    with Live(folder, recount=False) as live:
        assert live.observe(events([910, 911])).refused == 1


@pytest.mark.parametrize(("n_items", "limits"), [(40, (1000, 10_000)), (50_000, (5000, 50_000))])
def test_limits_follow_the_size_of_the_model(n_items, limits):
    terms = Terms().for_items(n_items)
    assert (terms.new_items_per_day, terms.new_items) == limits
    assert Terms(new_items=7, new_items_per_day=0).for_items(n_items).new_items == 7
