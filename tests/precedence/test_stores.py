import numpy as np
import pytest

import surerec as sr
from surerec.precedence import rows_from, source
from surerec.precedence._rows import load, read_row

FILMS = sr.datasets.synthetic(n_users=60, n_items=200, n_rows=700, seed=5)
KINDS = ["dense", "bounded", "on-demand"]


@pytest.fixture(params=KINDS)
def statistics(request):
    memory = 2_000 if request.param == "bounded" else None
    return sr.count_precedence(FILMS, strategy=request.param, memory=memory)


def test_a_store_is_put_together_again_from_its_arrays(statistics):
    again = rows_from(statistics.rows.kind, statistics.rows.arrays(), FILMS)
    assert type(again) is type(statistics.rows)
    for item in range(FILMS.n_items):
        assert again.followers(item).tolist() == statistics.followers(item).tolist()
        assert again.predecessors(item).tolist() == statistics.predecessors(item).tolist()


def test_every_store_gives_its_rows_to_kernels(statistics):
    items = np.array([7, 0, 3])
    for rows in (statistics.rows, statistics.without_user(0).rows):
        given, row = source(rows, "followers", items), np.empty(FILMS.n_items, dtype=np.uint32)
        for place, item in enumerate(items):
            read_row(given, place, row)
            assert row.tolist() == rows.followers(item).tolist()


def test_only_dense_rows_lie_in_one_matrix(statistics):
    assert statistics.rows.holds_all == (statistics.rows.kind == "dense")


def test_a_store_without_one_of_its_users_has_no_kind(statistics):
    rows = statistics.without_user(0).rows
    assert (rows.kind, rows.holds_all, rows.arrays()) == (None, False, {})


def test_no_rows_of_an_unknown_kind():
    with pytest.raises(ValueError, match="no other rows"):
        rows_from("other", {}, FILMS)


@pytest.mark.parametrize("strategy", ["on-demand", "bounded"])
def test_rows_that_are_counted_when_asked_for_need_their_profiles(strategy):
    rows = sr.count_precedence(FILMS, strategy=strategy).rows
    with pytest.raises(ValueError, match="a span leads outside"):
        rows_from(strategy, rows.arrays(), sr.Interactions.no_users(FILMS.n_items))


@pytest.mark.parametrize(
    ("role", "place", "value"),
    [
        ("following_stops", 0, FILMS.n_rows + 1),
        ("preceding_offsets", -1, FILMS.n_rows + 1),
        ("followers_held_slots", 0, 10**6),
        ("preceding_starts", 5, FILMS.n_rows),
        ("followers_held_offsets", 1, 2**40),
        ("following_starts", -1, 0),
    ],
)
def test_an_index_that_leads_outside_is_seen(role, place, value):
    rows = sr.count_precedence(FILMS, strategy="bounded", memory=200_000).rows
    arrays = {name: array.copy() for name, array in rows.arrays().items()}
    arrays[role][place] = value
    with pytest.raises(ValueError, match=r"outside|not there|longer"):
        rows_from("bounded", arrays, FILMS)


@pytest.mark.parametrize("value", [0, FILMS.n_items - 1, FILMS.n_items, 2**32 - 1])
def test_held_items_that_do_not_ascend_change_counts_and_nothing_else(value):
    rows = sr.count_precedence(FILMS, strategy="bounded", memory=200_000).rows
    arrays = {name: array.copy() for name, array in rows.arrays().items()}
    arrays["followers_held_items"][:] = value
    damaged = rows_from("bounded", arrays, FILMS)
    for item in range(FILMS.n_items):
        assert len(damaged.followers(item)) == FILMS.n_items
        room = np.zeros(3, dtype=np.uint16)
        load(source(damaged, "followers", np.array([item])), 0, FILMS.n_items - 3, room)
