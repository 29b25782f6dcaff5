import itertools
from tempfile import TemporaryDirectory

import hypothesis.extra.numpy as hnp
import numpy as np
import polars as pl
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import State
from surerec.storage import RecommenderSpec, load_model, read_card, save_model
from tests.storage.stored_models import (
    MAIN,
    OTHER,
    assert_same,
    is_mapped,
    old_statistics,
    same,
)

numbers = st.integers(-(2**63), 2**63 - 1)
large_numbers = st.integers(2**63, 2**64 - 1)  # stored as UInt64
TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
names = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
arrays = st.sampled_from(TYPES).flatmap(lambda kind: hnp.arrays(np.dtype(kind), shapes))
texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(["", "\r\n", "a\rb\n", "\ufeff"])
words = st.text(st.characters(codec="utf-8", exclude_characters="\0"), min_size=1, max_size=20)


@st.composite
def some_interactions(draw):
    users, items = (
        pl.Series(draw(st.lists(kind, min_size=1, max_size=7, unique=True)))
        for kind in (draw(st.sampled_from([numbers, large_numbers, words])) for _ in range(2))
    )
    profile = st.lists(st.integers(0, len(items) - 1), unique=True)
    profiles = draw(st.lists(profile, min_size=len(users), max_size=len(users)))
    consumed = [item for each in profiles for item in each]
    times = draw(st.lists(st.integers(-3, 3), min_size=len(consumed), max_size=len(consumed)))
    offsets = np.cumsum([0] + [len(each) for each in profiles])
    titled = draw(st.none() | st.lists(st.none() | words, min_size=len(items), max_size=len(items)))
    titles = None
    if titled is not None:
        titles = pl.DataFrame({"item_id": items, "title": pl.Series(titled, dtype=pl.String)})
        if draw(st.booleans()):
            titles = titles.with_columns(genres=pl.col("title").reverse())
    for begin, end in itertools.pairwise(offsets):
        times[begin:end] = sorted(times[begin:end])
    return sr.Interactions.from_profiles(
        offsets,
        consumed,
        times,
        user_ids=users,
        item_ids=items,
        titles=titles,
        name=draw(st.none() | words),
        origin=draw(st.none() | words),
    )


@settings(max_examples=40)
@given(
    some_interactions(),
    st.sampled_from(["order", "strict"]),
    st.sampled_from(["dense", "bounded"]),
)
def test_loaded_statistics_equal_saved_ones(interactions, ties, strategy):
    statistics = sr.count_precedence(interactions, ties=ties, strategy=strategy)
    with TemporaryDirectory() as folder:
        save_model(folder, statistics, {"main": MAIN})
        model = load_model(folder)
        assert_same(model.statistics, statistics)
        consumed = model.statistics.interactions
        for array in (
            model.statistics.support,
            consumed.offsets,
            consumed.item_codes,
            consumed.times,
        ):
            assert type(array) is np.ndarray  # kernels know no subclass
            assert not array.flags.writeable
            assert is_mapped(array)
        assert model.recommenders.keys() == {"main"}
        assert type(model.statistics.rows) is type(statistics.rows)
        # The same statistics, wherever they lie, are the same files.
        before = read_card(folder)["files"]
        save_model(folder, model.statistics, {"other": OTHER})
        assert read_card(folder)["files"] == before


@pytest.mark.parametrize("counts", [[[0, 2], [1, 0]], np.zeros((0, 0), dtype=int)])
def test_given_counts(tmp_path, counts):
    statistics = sr.PrecedenceStatistics.from_counts(counts, [3] * len(counts), n_users=3)
    save_model(tmp_path / "model", statistics, {"main": MAIN})
    assert_same(load_model(tmp_path / "model").statistics, statistics)
    assert read_card(tmp_path / "model")["data"] is None


def test_the_manifest_describes_the_model(tmp_path, write):
    source = write("ratings.csv", "user,item,rating,time\n1,2,5,1\n1,2,5,2\n1,3,x,3\n2,3,5,4\n")
    consumed = sr.read_interactions(source, skip_bad=True, name="films")
    assert (consumed.rows_read.repeats, consumed.rows_read.bad) == (1, 1)
    consumed.origin = "a\udcff file"
    statistics = sr.count_precedence(consumed, ties="strict", strategy="dense")
    save_model(tmp_path / "model", statistics, {"main": MAIN, "other": OTHER})
    model, card = load_model(tmp_path / "model"), read_card(tmp_path / "model")
    assert_same(model.statistics, statistics)
    assert model.card == card
    assert (card["format_version"], card["surerec_version"]) == (6, sr.__version__)
    assert (card["data"]["name"], card["data"]["origin"]) == ("films", "a\udcff file")
    assert card["counts"] == {"users": 2, "items": 2, "rows": 2}
    assert card["settings"] == {"ties": "strict", "rows": "dense"}
    main = {"kind": MAIN.kind, "params": MAIN.params, "arrays": {}, "texts": {}}
    assert card["recommenders"]["main"] == main
    sizes = {name: (tmp_path / "model" / name).stat().st_size for name in card["files"]}
    assert sizes == {name: record["bytes"] for name, record in card["files"].items()}


@settings(max_examples=60)
@given(
    st.dictionaries(names, arrays, max_size=3),
    st.dictionaries(names, texts, max_size=3),
    st.booleans(),
)
def test_states_are_restored_exactly(arrays, texts, verify):
    spec = RecommenderSpec("learned", {"a": 1}, State(arrays, texts))
    with TemporaryDirectory() as folder:
        save_model(folder, old_statistics(), {"learned": spec, "main": MAIN})
        found = load_model(folder, verify=verify).recommenders
        assert same(found, {"learned": spec, "main": MAIN})
        for array in found["learned"].state.arrays.values():
            assert type(array) is np.ndarray
            assert array.flags.c_contiguous
            assert not array.flags.writeable
            assert is_mapped(array)
        before = read_card(folder)["files"]
        save_model(folder, old_statistics(), {"again": found["learned"]})
        assert read_card(folder)["files"] == before
