import numpy as np
import pandas as pd
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec import InputError, Interactions
from surerec.interactions import GrowingIds, IdMap, encode, read_user_segments

numbers = st.lists(st.integers(-(2**63), 2**63 - 1), unique=True)
texts = st.lists(st.text(max_size=5), unique=True)


@given(numbers | texts, numbers | texts)
def test_codes_are_positions_and_unknown_ids_have_none(ids, wanted):
    dtype = pl.String if ids and isinstance(ids[0], str) else pl.Int64
    id_map = IdMap(pl.Series(ids, dtype=dtype))
    as_text = {str(value): code for code, value in enumerate(ids)}
    assert id_map.codes(ids).tolist() == list(range(len(ids)))
    expected = [as_text.get(str(value).strip() if dtype != pl.String else str(value), -1)
                for value in wanted]  # fmt: skip
    assert id_map.codes(wanted).tolist() == expected
    assert id_map.codes(wanted * 17).tolist() == expected * 17  # many are searched otherwise


def test_an_unknown_id_is_refused_with_near_ones():
    users = IdMap(pl.Series(["anna", "bert"]), noun="user")
    with pytest.raises(InputError, match=r"no user 'ann'\. Did you mean 'anna'"):
        users.code("ann")
    assert "bert" in users
    assert 7 not in users


@given(st.lists(st.integers(-50, 50)) | numbers | texts)
def test_ids_are_numbered_in_order_of_first_appearance(values):
    dtype = pl.String if values and isinstance(values[0], str) else pl.Int64
    ids, codes = encode(pl.Series(values, dtype=dtype))
    assert ids.to_list() == list(dict.fromkeys(values))
    assert [ids[int(code)] for code in codes] == values


SAME = [12346, 12346.0, np.float64(12346), np.float32(12346), np.int32(12346), np.uint64(12346)]
SAME += ["12346", np.str_("12346")]
NONE = [None, float("nan"), pd.NA, pd.NaT, 0.5, True, float("inf"), 1e300]


@pytest.mark.parametrize("ids", [[5, 12346], ["a1", "12346"]])
def test_an_id_from_pandas_or_numpy_is_the_same_id(ids):
    id_map = IdMap(pl.Series(ids), noun="user")
    assert id_map.codes(SAME).tolist() == [1] * len(SAME)
    assert [id_map.code(each) for each in SAME] == [1] * len(SAME)
    assert (id_map.codes(NONE) == -1).all()
    assert id_map.codes(pd.Series([12346.0, None])).tolist() == [1, -1]


def test_floats_that_a_file_holds_as_text_stay_found():
    assert IdMap(pl.Series(["12346.0", "7.0"])).codes([7.0, "12346.0", 7]).tolist() == [1, 0, -1]
    assert (IdMap(pl.Series(["None", "nan", "<NA>"])).codes(NONE) == -1).all()


@pytest.mark.parametrize(
    "given",
    [
        {12346: "DE", 7: "AT", 5: None},
        {12346.0: "DE", "7": "AT", 5: float("nan")},
        pd.Series(["DE", "AT", None], index=[12346, 7, 5]),
        pd.Series(["DE", " AT ", pd.NA], index=[12346.0, 7.0, 5.0], dtype="string"),
        pd.Series(["DE", "AT"], index=["12346", "7"], dtype="category"),
        pd.DataFrame({"user_id": [12346.0, 7.0, np.nan], "c": ["DE", "AT", "FR"]}),
    ],
)
def test_groups_of_users_come_from_a_series_or_mapping_with_ids_of_pandas(given):
    groups = read_user_segments(given, "c", IdMap(pl.Series([5, 7, 12346]), noun="user"))
    assert (groups.names, groups.codes.tolist()) == (("AT", "DE"), [-1, 0, 1])


@pytest.mark.parametrize("values", [[3.0, 4.0, np.nan], [3, 4, None], ["3", "4", ""]])
def test_numbers_that_name_groups_are_written_alike(values):
    users = IdMap(pl.Series([5, 7, 12346]), noun="user")
    mapping = dict(zip([5, 7, 12346], values, strict=True))
    for source in (mapping, pd.Series(values, [5, 7, 12346])):
        groups = read_user_segments(source, "c", users)
        assert (groups.names, groups.codes.tolist()) == (("3", "4"), [0, 1, -1])


@pytest.mark.parametrize("ids", [[1.0, 2.0], pd.Series([1, 2], dtype=object), np.array([1.0, 2.0])])
def test_profiles_take_ids_of_pandas(ids):
    data = Interactions.from_profiles([0, 2, 3], [1, 0, 1], item_ids=ids, user_ids=ids)
    assert data.users.ids.to_list() == sorted(data.items.ids) == [1, 2]


steps = st.lists(st.tuples(st.sampled_from(["add", "remove", "find"]), st.integers(0, 9)))


@given(steps, st.booleans())
def test_one_id_is_found_as_among_others(consumed, as_text):
    base = pl.Series([3, 1, 7]) if not as_text else pl.Series(["3", "1", "7"])
    ids, known = GrowingIds(IdMap(base, noun="user")), {"3": 0, "1": 1, "7": 2}
    gone = set()
    for what, number in consumed:
        text = str(number)
        if what == "add":
            known.setdefault(text, len(known))
            gone.discard(text)
            assert ids.add(text) == known[text]
        elif what == "remove" and text in known:
            gone.add(text)
            ids.remove(known[text])
        expected = -1 if text in gone else known.get(text, -1)
        for form in (text, number):  # twice, as what was found once is remembered
            assert ids.find(form) == ids.codes([form])[0] == expected


def test_true_is_not_one():
    ids = GrowingIds(IdMap(pl.Series([1, 2]), noun="user"))
    assert (ids.find(1), ids.find("1"), ids.find(True), ids.find("01")) == (0, 0, -1, -1)
    with pytest.raises(InputError):
        ids.add("ann")
