"""What alarms take for usual: the latest events that would be watched, judged as they come."""

from __future__ import annotations

import numpy as np

import surerec as sr
from surerec.conformal import Watch, is_inside
from surerec.live import Live
from surerec.live._events import usual_levels
from surerec.measures import Query

_DAY = 86_400_000_000


def slow_levels(model, most):
    films, found = model.statistics_.interactions, []
    for user in range(films.n_users):
        items, times = films.taken(user).astype(np.int64), films.times_of(user)
        for place in range(model.min_known, len(items)):
            if times[place] // _DAY == times[place - 1] // _DAY:
                continue
            if model.statistics_.support[items[place]] == 1:
                continue
            query = Query(items[:place], (user,), times[:place])
            level = model.model_.assess(query, items[place : place + 1]).levels_below[0]
            found.append((-times[place], user, place, level))
    return [level for *_, level in sorted(found)[:most]]


def test_they_are_the_levels_of_the_latest_first_events_of_a_day() -> None:
    films = sr.datasets.synthetic(n_users=80, n_items=40, n_rows=1600, days=60, seed=2)
    model = sr.PopulationConformal("CM12").fit(films)
    assert usual_levels(model.model_, 90).tolist() == slow_levels(model, 90)
    assert (
        len(usual_levels(model.model_, 10**6))
        == len(slow_levels(model, 10**6))
        < films.n_rows - 400
    )


def test_a_live_model_watches_for_more_than_that_from_each_recount_on(tmp_path) -> None:
    films = sr.datasets.synthetic(n_users=120, n_items=40, n_rows=2400, days=400, seed=2)
    model = sr.PopulationConformal("CM12").fit(films)

    def watches(live):
        levels = usual_levels(sr.load(live._state.folder.model(live.base_)).model_).tolist()
        for watch, epsilon in zip(live._state.ledger.watches, (0.1, 0.2, 0.3), strict=True):
            errors = sum(not is_inside(level, epsilon) for level in levels)
            assert watch.rate == Watch.start(epsilon, usual=(errors, len(levels))).rate
        return [watch.rate for watch in live._state.ledger.watches]

    with Live.create(tmp_path / "shop", model, recount=False) as live:
        before = watches(live)
        someone = films.users[3]
        live.observe([{"user": someone, "item": 900 + n, "time": 1.7e9 + n} for n in range(5)])
        live.recount()
        assert watches(live) != before
