"""The k best of many users at once are those of each user alone."""

import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from tests.recommenders.small_profiles import read

some_rows = st.lists(
    st.tuples(st.integers(0, 7), st.integers(0, 11), st.integers(0, 5)), min_size=8, max_size=80
)
models = st.builds(
    sr.InductiveConformal,
    measure=st.sampled_from(list(sr.MEASURES)),
    literal=st.booleans(),
    train_share=st.sampled_from([0.2, 0.5, 0.7]),
)
rules = st.sampled_from(["order", "strict"])


@given(models, some_rows, rules, st.integers(1, 14), st.integers(5, 95))
def test_the_fast_way_gives_what_the_plain_way_gives(model, rows, ties, k, percent):
    counts = sr.count_precedence(read(rows), ties=ties, strategy="dense")
    found = model.fit(counts).recommend_many(significance=percent / 100, k=k)
    alone = [
        model.recommend(user, significance=percent / 100, k=k)
        .to_frame()
        .select(pl.lit(user).cast(found["user_id"].dtype).alias("user_id"), pl.all())
        for user in counts.interactions.users.ids
    ]
    assert found.drop("covered").equals(pl.concat(alone))
    counted = sr.count_precedence(read(rows), ties=ties, strategy="on-demand")
    assert model.fit(counted).recommend_many(significance=percent / 100, k=k).equals(found)


@pytest.mark.parametrize("measure", sr.MEASURES)
def test_every_measure_on_longer_profiles(measure):
    films = sr.datasets.synthetic(n_users=60, n_items=700, n_rows=6_000, ties=0.3, seed=3)
    model = sr.InductiveConformal(measure).fit(films)
    found = model.recommend_many(confidence=0.8, k=25)
    for user in (1, 17, 60):
        alone = model.recommend(user, confidence=0.8, k=25).to_frame()
        assert found.filter(user_id=user).drop("user_id", "covered").equals(alone)


@pytest.mark.parametrize("ties", ["order", "strict"])
@pytest.mark.parametrize("measure", ["CM10", "CM11", "CM12", "CM13"])
def test_a_rough_look_first_changes_nothing(measure, ties):
    """With few users many items tie or nearly do, which 32 bits cannot tell apart."""
    films = sr.datasets.synthetic(n_users=40, n_items=900, n_rows=6_000, ties=0.3, seed=5)
    counts = sr.count_precedence(films, ties=ties, strategy="dense")
    model = sr.InductiveConformal(measure).fit(counts)
    for k, confidence in ((1, 0.5), (5, 0.8), (20, 0.99)):
        found = model.recommend_many(confidence=confidence, k=k)
        alone = [
            model.recommend(user, confidence=confidence, k=k).to_frame() for user in films.users.ids
        ]
        assert found.drop("user_id", "covered").equals(pl.concat(alone))
