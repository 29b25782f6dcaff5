"""Guarantees hold for new users, on data in which a third of the items was consumed once."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.evaluation import new_user_test
from tests.contracts.support import Careful, popular

_FIRST_SINGLE = 100_000


def rich_in_singletons(n_users=400, n_items=300, n_rows=5_200, random_state=3):
    """Return synthetic data with one-off items appended: half as many as there are items."""
    films = sr.datasets.synthetic(
        n_users=n_users,
        n_items=n_items,
        n_rows=n_rows,
        length_spread=0.3,
        random_state=random_state,
    )
    rows = films.to_frame()
    rng = np.random.default_rng(random_state)
    singles = _FIRST_SINGLE + np.arange(films.n_items // 2)
    after = rows[rng.integers(len(rows), size=len(singles))]  # each follows some interaction
    once = after.with_columns(
        pl.Series("item_id", singles).cast(rows["item_id"].dtype),
        pl.col("datetime") + pl.duration(microseconds=1),
    )
    return sr.read_interactions(pl.concat([rows, once]), time="datetime", name="singletons")


DATA = rich_in_singletons()


class Rare(Careful):
    """Ranks the rarest items first, those without other consumers before all others."""

    def score(self, history, *, without_user=None):
        return -super().score(history, without_user=without_user)


MEASURES = {"CM12": "CM12", "CM4": "CM4", "own": Careful, "apart": popular}
MEASURES |= {"als": "als", "learned": "learned"}
SLOW = {"als": 2, "learned": 1}
CUTS = {"recall": "score", "hit": "rank", "precision": "score"}


def test_a_third_of_the_items_was_consumed_once():
    support = np.bincount(DATA.item_codes, minlength=DATA.n_items)
    assert (support == 1).mean() >= 1 / 3


@pytest.mark.parametrize("guarantee", CUTS)
@pytest.mark.parametrize("name", MEASURES)
def test_the_guarantee_holds_for_new_users_and_nothing_leaks(name, guarantee):
    n_splits = SLOW.get(name, 4)
    _check(
        new_user_test(
            DATA, MEASURES[name], guarantee=guarantee, threshold=CUTS[guarantee], n_splits=n_splits
        )
    )


@pytest.mark.full
@pytest.mark.parametrize("name", ["als", "learned"])
def test_the_same_with_more_users_and_splits(name):
    data = rich_in_singletons(n_users=2_000, n_items=1_000, n_rows=28_000)
    _check(new_user_test(data, MEASURES[name], n_splits=4))


def _check(found):
    table = found.table().filter(pl.col("observed").is_not_null())
    assert len(table), "no ε is guaranteed"
    excess = table["observed"] - table["epsilon"] - 2 * table["standard_error"]
    assert excess.max() <= 0.01, found.table()
    assert not found.support["leak"].any(), found.support


def test_a_planted_leak_through_the_catalogue_is_found(monkeypatch):
    """Items without other consumers stay candidates, unlike for new users."""
    monkeypatch.setattr(
        sr.PrecedenceStatistics, "unknown_without", lambda self, _: self._unconsumed
    )
    found = new_user_test(DATA, Rare, threshold="rank", n_splits=3)
    none = found.support.filter(pl.col("other_users") == "0")
    assert none["leak"].item()
    assert none["calibration"].item() < 0.9 < none["new"].item()


def test_a_planted_leak_through_ties_is_found(monkeypatch):
    """Equal scores come by a popularity that counts the user."""
    monkeypatch.setattr(
        sr.PrecedenceStatistics, "popularity_without", lambda self, *_: self.popularity
    )
    found = new_user_test(DATA, Careful, guarantee="hit", threshold="rank", n_splits=8)
    assert found.support["leak"].any() or not found.holds
