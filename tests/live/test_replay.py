"""Replays of history with a static, a recalibrated and a live model."""

from __future__ import annotations

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import Ranking
from surerec.errors import InputError
from surerec.live import ReplayOptions, ReplayResult, replay, summary_of, windows_of, write_replay
from surerec.measures import Query

DAY = 86_400_000_000


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(
        n_users=500, n_items=80, n_rows=9000, days=200, drift=0.6, random_state=1
    )


@pytest.fixture(scope="module")
def begin(films):
    return int(films.times.min()) + 120 * DAY


@pytest.fixture(scope="module")
def played(films, begin):
    return replay(films, begin, options=ReplayOptions(renew=20, window=60))


def test_the_live_model_has_nominal_coverage_under_drift(played):
    summary = summary_of(played, length=1000)
    live = summary.filter(model="live")
    assert (live["outside"] - live["epsilon"]).abs().max() < 0.006
    assert live["worst_window"].max() < 0.05
    # The finite-time bound; with each event counted once there is none.
    assert ((live["outside"] - live["epsilon"]).abs() <= 103 / live["n_user_days"]).all()
    assert live["outside_events"].is_between(0.05, 0.35).all()
    static = summary.filter(model="static")
    assert (static["outside"] - static["epsilon"]).abs().max() > 0.02


def test_every_event_after_the_start_is_counted(films, begin, played):
    n = int((films.times >= begin).sum())
    assert len(played.times) + sum(played.not_evaluated.values()) == n
    assert (np.diff(played.times) >= 0).all()
    assert played.times[0] >= begin


@pytest.mark.parametrize("threshold", ["rank", "score"])
def test_sizes_and_misses_equal_the_slow_reference(films, begin, threshold):
    """Compare the first events with sets that are built one item at a time."""
    options = ReplayOptions(renew=60, window=60, threshold=threshold, epsilons=(0.2,))
    played = replay(films, begin, options=options)
    order = np.argsort(films.times, kind="stable")
    owners = np.repeat(np.arange(films.n_users), np.diff(films.offsets))

    def ranked(at, counts, scorer):
        user, place = int(owners[at]), int(at)
        known = films.item_codes[films.offsets[user] : place].astype(int)
        known = known[counts.support[known] > 0]
        item = int(films.item_codes[place])
        if counts.support[item] == 0 or len(known) < 5:
            return None
        scores = scorer.score_query(Query(known, (user,)))
        values = scorer.value(scores, len(known), counts.n_users)
        others = [i for i in range(films.n_items) if i not in known and counts.support[i] > 0]
        popularity = np.argsort(np.argsort(-counts.support.astype(int), kind="stable"))
        found = Ranking.of(np.array(others), scores, values, popularity)
        keys = found.entries(threshold)[found.places(np.arange(films.n_items), films.n_items)]
        return keys[item], keys[others]

    measure = sr.measures.as_measure("CM12")
    first = [at for at in order if begin <= films.times[at]][:40]
    counts = sr.count_precedence(films.until(begin))
    scorer = measure.fit(counts)
    entries = [found for at in first if (found := ranked(at, counts, scorer)) is not None]
    for k, (entry, all_entries) in enumerate(entries):
        for m in (0, 1):
            inside = not played.outside[m, k, 0]
            size = int(played.sizes[m, k, 0])
            threshold_at = np.sort(all_entries)[size - 1] if size else -np.inf
            assert inside == (entry <= threshold_at)


def test_tables_and_the_folder(played, tmp_path):
    windows = windows_of(played, 1000)
    assert windows["n"].sum() == 9 * len(played.times)
    write_replay(played, tmp_path / "out")
    names = pl.read_csv(tmp_path / "out" / "summary.csv").columns
    assert names[:3] == ["epsilon", "model", "outside"]
    assert (tmp_path / "out" / "figures" / "replay.svg").stat().st_size > 1000
    write_replay(played, tmp_path / "out")  # overwrites itself
    (tmp_path / "other").mkdir()
    (tmp_path / "other" / "thesis.tex").touch()
    with pytest.raises(InputError, match="contains files that are not a replay"):
        write_replay(played, tmp_path / "other")


def test_worst_window_and_trivial_sets():
    outside = np.array([0, 0, 1, 1, 0, 0, 0, 1], dtype=bool)
    errors = np.repeat(outside[None, :, None], 3, axis=0)
    sizes = np.where(errors, 0, [[[3]], [[5]], [[6]]])
    days = np.arange(8)
    played = ReplayResult(
        days, errors, sizes, np.full(8, 5), days, {}, ReplayOptions(epsilons=(0.25,)), "x"
    )
    # In threes: 1 2 2 1 0 1 errors; the windows that begin at 0, 3 and so on have 1, 1 of them.
    summary = summary_of(played, length=3)
    assert summary["worst_window"].to_list() == pytest.approx([2 / 3 - 0.25] * 3)
    assert summary["all_or_nothing"].to_list() == [3 / 8, 1, 1]
    assert summary["size_ratio"].to_list() == pytest.approx([3 / 5, 1, 6 / 5])
    assert summary_of(played, length=9)["worst_window"].to_list() == [None] * 3


@pytest.mark.parametrize("days", [-5, 10, 400])
def test_a_start_without_past_or_future_is_refused(films, days):
    with pytest.raises(InputError, match="The stream cannot begin on"):
        replay(films, int(films.times.min()) + days * DAY)


@pytest.mark.parametrize(
    "given", [{"threshold": "size"}, {"renew": 0}, {"epsilons": ()}, {"step": 2}]
)
def test_invalid_options_are_refused(given):
    with pytest.raises(InputError):
        ReplayOptions(**given)
