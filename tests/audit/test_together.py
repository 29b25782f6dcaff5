"""What groups are delivered, by size and by member."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=80, n_rows=9000, sequels=0, seed=1)


@pytest.fixture(scope="module")
def found(films):
    return audit(films, n_users=250)


def test_every_promise_is_tested_for_the_sizes_it_is_offered_for(found):
    sizes = {
        promise: sorted(part["size"].unique())
        for (promise,), part in found.together.group_by("promise")
    }
    assert sizes["any"] == sizes["worst"] == [2, 4, 8]
    assert sizes["all"] == sizes["hit-all"] == [2]
    assert set(sizes["most"]) <= {2, 4}
    kept = found.together.filter(pl.col("verdict") == "does not hold")
    assert not len(kept), kept


def test_members_are_counted_as_the_promise_to_the_worst_says(found):
    worst = found.together.filter(pl.col("promise") == "worst", pl.col("size") == 2)
    np.testing.assert_allclose(worst["least_served"], worst["delivered"], atol=0.02)
    assert (worst["members"] >= worst["least_served"]).all()


def test_the_page_and_the_tables_have_it(found):
    assert "Groups who choose together" in found.to_html()
    assert "together" in found.tables()


def test_who_cannot_be_left_out_is_said(films):
    def popular(statistics):
        class Popular:
            leaves_users_out = False

            def score(self, history, *, without_user=None):  # noqa: ARG002
                return statistics.support.astype(float)

        return Popular()

    found = audit(films, popular, n_users=250)
    assert found.together is None
    assert any("Groups of users are left out" in said for said in found.skipped)
