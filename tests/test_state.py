"""States of components, and the schemas that check what is read."""

import numpy as np
import pytest

from surerec._state import ArraySchema, State, check_arrays

SCHEMAS = {
    "offsets": ArraySchema("int64", ("n_users+1",)),
    "codes": ArraySchema(("int32", "int64"), ("n_rows",), low=-1, below="n_users"),
    "scores": ArraySchema("float64", ("n_rows", 2), holds="numbers"),
    "shares": ArraySchema("float32", (None,), holds="finite"),
}
GOOD = {
    "offsets": np.array([0, 2, 3]),
    "codes": np.array([0, -1, 1]),
    "scores": np.array([[0.0, np.inf]] * 3),
    "shares": np.ones(4, dtype=np.float32),
}


def test_states_are_composed_and_split():
    codes, name = np.arange(2), {"name": "new"}
    lists = State.numbered("list", [State({"codes": codes}, name)] * 12)
    whole = State({"ridge": codes}).under("scorer_") | lists
    found, rest = whole.split_numbered("list")
    assert [each.texts for each in found] == [name] * 12
    assert [*rest.arrays] == ["scorer_ridge"]
    assert rest.split("scorer_")[1].is_empty
    with pytest.raises(ValueError, match="a model: unexpected 'scorer_ridge'"):
        rest.require_empty("a model")


def test_valid_arrays_set_the_dimensions():
    assert check_arrays("x", SCHEMAS, GOOD) == {"n_users": 2, "n_rows": 3}
    nothing = {name: array[:1][: name == "offsets"] for name, array in GOOD.items()}
    assert check_arrays("x", SCHEMAS, nothing, n_users=0) == {"n_users": 0, "n_rows": 0}


@pytest.mark.parametrize(
    ("name", "array", "why"),
    [
        ("offsets", GOOD["offsets"].astype(">i8"), "is int64"),
        ("offsets", GOOD["offsets"][None], r"is int64 \(1, 3\), not int64 \('n_users"),
        ("offsets", np.empty(0, dtype=np.int64), r"\(0,\)"),
        ("codes", GOOD["codes"].astype(np.uint8), "is uint8 .* not int32 or int64"),
        ("codes", np.array([0, -2, 1]), "has -2, not at least -1"),
        ("codes", np.array([0, 2, 1]), "has 2, not below 2"),
        ("codes", np.array(1), r"is int64 \(\)"),
        ("scores", GOOD["scores"][:2], "with n_users=2, n_rows=3"),
        ("scores", GOOD["scores"][:, :1], "is float64"),
        ("scores", GOOD["scores"] * np.nan, "has NaN"),
        ("shares", np.full(2, np.inf, dtype=np.float32), "not finite"),
        ("more", GOOD["shares"], "x: unexpected 'more'"),
    ],
)
def test_invalid_arrays_are_refused(name, array, why):
    with pytest.raises(ValueError, match=why):
        check_arrays("x", SCHEMAS, {**GOOD, name: array})


def test_a_missing_array_is_named():
    with pytest.raises(KeyError, match="codes"):
        check_arrays("x", SCHEMAS, {name: GOOD[name] for name in GOOD if name != "codes"})
