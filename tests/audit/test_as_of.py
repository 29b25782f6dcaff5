import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.audit import audit
from surerec.errors import InputError
from surerec.measures import MeasureScorer


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=250, n_items=60, n_rows=6000, drift=0.3, seed=3)


def test_promises_by_profile_are_measured_as_of_then_beside_what_counts_knew_later(films):
    found = audit(films, n_users=200, as_of=True)
    plain = audit(films, n_users=200)
    kinds = {verdict.kind for verdict in found.verdicts}
    more = {"miss-rank-as-of", "miss-score-as-of", "hit-rank-as-of"}
    assert more <= kinds
    assert kinds - more == {verdict.kind for verdict in plain.verdicts}
    assert {verdict.kind for verdict in found.verdicts[:3]} == more  # point-in-time comes first
    assert found.coverage["kind"][0].endswith("-as-of")
    assert found.settings["as_of"]
    assert not plain.settings["as_of"]
    assert any("as of then: Counted up to the start of each of 12 blocks" in s for s in found.notes)
    for one in (found, plain):
        assert "used what other users did later" in one.notes[-1]
        assert "used what other users did later" in one.to_html()


def test_below_the_floor_there_is_no_size(films):
    rows = films.to_frame().with_row_index()
    late = pl.col("datetime") > pl.col("datetime").median()
    item = pl.when(late & (pl.col("index") % 3 == 0)).then(pl.format("new {}", "index"))
    item = item.otherwise("item_id").cast(pl.String).alias("item_id")
    data = sr.read_interactions(rows.select("user_id", item, "datetime"))
    found = audit(data, n_users=200, window=30, as_of=True)
    floors = found.coverage.filter(pl.col("kind") == "miss-rank-as-of")["floor"]
    assert floors.n_unique() == 1
    assert floors[0] > 0.1
    user_level = found.coverage.filter(~pl.col("kind").str.starts_with("item"))
    for row in user_level.to_dicts():
        assert (row["size"] is None) == (row["epsilon"] + 1e-9 < row["floor"])
    page = found.to_html()
    assert f"≥ {np.ceil(1000 * floors[0]) / 1000:.3f}" in page
    assert "the smallest ε that any set can guarantee" in page
    assert ">nan<" not in page


def test_what_may_know_the_futures_is_not_counted_as_of_then(films):
    fitted = MeasureScorer(sr.count_precedence(films), "CM12")
    found = audit(films, fitted, n_users=60, as_of=True)
    assert any("comes fitted" in why and "as of then" in why for why in found.skipped)
    with pytest.raises(InputError, match="as_of"):
        audit(films, as_of="yes")


def test_repeats_are_told_as_what_nothing_is_promised_of(films):
    again = pl.concat([films.to_frame(), films.to_frame().head(3000)])
    found = audit(sr.read_interactions(again), n_users=60, window=400)
    assert any("33% of what people took" in what for what in found.known)
    plain = audit(sr.read_interactions(films.to_frame()), n_users=60, window=400)
    assert "Nobody took an item twice." in plain.known
