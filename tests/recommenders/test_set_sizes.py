"""Set sizes of wrapped models beside those of popularity."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import LargeSetsWarning

ROWS = sr.datasets.synthetic(n_users=400, n_items=80, n_rows=12_000, random_state=2).to_frame()
LATE = pl.col("datetime").rank("ordinal", descending=True).over("user_id") <= 4
PAST, FUTURE = (ROWS.filter(pl.len().over("user_id") > 10).filter(some) for some in (~LATE, LATE))
ITEMS = PAST["item_id"].unique().sort().to_list()
SUPPORT = dict(PAST["item_id"].value_counts().iter_rows())


def popular(history):  # noqa: ARG001
    return [SUPPORT[item] for item in ITEMS]


def unpopular(history):
    return [-score for score in popular(history)]


def test_a_model_of_popularity_has_the_sizes_of_popularity():
    sure = sr.wrap(popular, items=ITEMS, covers="new-users").calibrate(PAST, FUTURE)
    sizes = sure.sizes_
    assert sizes["confidence"].to_list() == [0.9, 0.8, 0.7, 0.5]
    assert sizes["size"].to_numpy() == pytest.approx(sizes["popularity"].to_numpy(), abs=1)
    # By hand: the smallest common rank that keeps 80% of each user's future, on average.
    known = PAST.group_by("user_id").agg("item_id")
    known = dict(zip(known["user_id"], map(set, known["item_id"]), strict=True))
    by_user = FUTURE.filter(pl.col("item_id").is_in(ITEMS)).group_by("user_id").agg("item_id")
    ranks, lengths = [], []
    for user, future in by_user.iter_rows():
        order = sorted(set(ITEMS) - known[user], key=lambda item: -SUPPORT[item])
        ranks.append([order.index(item) + 1 for item in future])
        lengths.append(len(order))
    n = len(ranks)
    losses = [sum(np.mean(np.array(each) > rank) for each in ranks) for rank in range(81)]
    least = next(rank for rank, loss in enumerate(losses) if (loss + 1) / (n + 1) <= 0.2)
    expected = np.minimum(least, lengths).mean()
    assert sizes["popularity"][1] == pytest.approx(expected, abs=1)  # ties of popularity


def test_sets_larger_than_those_of_popularity_are_warned_of_with_numbers():
    message = r"unpopular needs \d+% of the catalogue at confidence 0\.8; popularity needs \d+%\."
    with pytest.warns(LargeSetsWarning, match=message):
        sr.wrap(unpopular, items=ITEMS, covers="new-users").calibrate(PAST, FUTURE)


def test_precision_has_no_sizes_at_a_confidence():
    sure = sr.wrap(popular, items=ITEMS, covers="new-users", guarantee="precision")
    assert sure.calibrate(PAST, FUTURE).sizes_ is None
