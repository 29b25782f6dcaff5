import lightgbm
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.errors import InputError
from surerec.measures.learned._training import contributions
from surerec.measures.learned._trees import Trees, read_trees, write_trees


def from_text(text):
    return Trees.of(read_trees(text))


def trained(random_state, n_leaves=15, n_features=5, **settings):
    rng = np.random.default_rng(random_state)
    features = np.round(rng.normal(size=(600, n_features)), 1).astype(np.float32)
    consumed = (features[:, 0] * features[:, 1] + rng.normal(size=600) > 0).astype(float)
    settings = {
        "objective": "binary",
        "num_leaves": n_leaves,
        "min_data_in_leaf": 3,
        "use_missing": False,
        "verbose": -1,
        "num_threads": 1,
        **settings,
    }
    return lightgbm.train(settings, lightgbm.Dataset(features, consumed), 12)


@settings(max_examples=15)
@given(random_state=st.integers(0, 10**6), n_leaves=st.sampled_from([2, 3, 15, 31, 32, 33, 63, 64]))
def test_trees_equal_lightgbm_to_the_last_bit(random_state, n_leaves):
    booster = trained(random_state, n_leaves)
    trees = from_text(booster.model_to_string())
    rng = np.random.default_rng(random_state + 1)
    features = np.round(rng.normal(size=(5, 1500)), 1).astype(np.float32)
    # Values equal to a threshold go left; LightGBM treats its threshold 1e-35 as 0.
    at_threshold = np.flatnonzero(np.abs(trees.thresholds) > 1e-30)
    features[trees.features[at_threshold], np.arange(len(at_threshold))] = trees.thresholds[
        at_threshold
    ]
    scores = np.zeros(features.shape[1])
    trees.add_to(scores, features)
    np.testing.assert_array_equal(scores, booster.predict(features.T, raw_score=True))


def test_a_tree_without_a_split_has_one_value():
    rng = np.random.default_rng(0)
    data = lightgbm.Dataset(rng.normal(size=(40, 2)), np.ones(40))
    booster = lightgbm.train(
        {"objective": "regression", "verbose": -1, "use_missing": False}, data, 2
    )
    scores = np.zeros(3)
    from_text(booster.model_to_string()).add_to(scores, np.zeros((2, 3), np.float32))
    np.testing.assert_array_equal(scores, booster.predict(np.zeros((3, 2))))


@pytest.mark.parametrize(
    ("text", "sentence"),
    [
        ("no model", "The model text of LightGBM has no trees"),
        ("Tree=0\nleaf_value=1 x\n", "Tree 0 of the model text is damaged"),
    ],
)
def test_damaged_texts_are_refused(text, sentence):
    with pytest.raises(InputError, match=sentence):
        from_text(text)


def test_too_many_leaves_and_other_splits_are_refused():
    with pytest.raises(InputError, match="leaves"):
        from_text(trained(1, n_leaves=70, min_data_in_leaf=1).model_to_string())
    text = trained(1).model_to_string().replace("decision_type=2", "decision_type=9", 1)
    with pytest.raises(InputError, match="categories or missing"):
        from_text(text)


@settings(max_examples=10)
@given(random_state=st.integers(0, 10**6), n_leaves=st.sampled_from([2, 15, 32, 64]))
def test_written_trees_give_the_same_contributions(random_state, n_leaves):
    booster = trained(random_state, n_leaves)
    text = write_trees(read_trees(booster.model_to_string()), list("abcde"))
    features = np.random.default_rng(random_state).normal(size=5).astype(np.float32)
    expected = booster.predict(features[None, :], pred_contrib=True)[0]
    np.testing.assert_array_equal(contributions(text, features), expected)


@pytest.mark.parametrize(
    ("field", "value", "reason"),
    [
        ("split_feature", "5", "an unknown feature"),
        ("left_child", "0", "make no tree"),
        ("right_child", "-1", "make no tree"),
        ("leaf_value", "nan", "not finite"),
        ("threshold", "inf", "not finite"),
        ("leaf_count", "-3", "counts are wrong"),
        ("split_feature", "", "different lengths"),
    ],
)
def test_invalid_trees_are_refused(field, value, reason):
    lines = trained(1).model_to_string().split("\n")
    place = next(k for k, line in enumerate(lines) if line.startswith(f"{field}="))
    first, _, rest = lines[place].partition("=")[2].partition(" ")
    assert first != value
    lines[place] = f"{field}={value} {rest}"
    with pytest.raises(InputError, match=reason):
        read_trees("\n".join(lines), 5)


def test_a_cycle_is_refused():
    tree = "Tree=0\nleaf_value=1 2 3 4\ndecision_type=2 2 2\nthreshold=0 0 0\n"
    tree += "split_feature=0 0 0\ninternal_count=1 1 1\nleaf_count=1 1 1 1\n"
    tree += "left_child=-1 2 1\nright_child=-2 -3 -4\n"
    with pytest.raises(InputError, match="make no tree"):
        read_trees(tree, 5)
