import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec import InputError
from surerec.interactions import IdMap
from surerec.interactions._ids import encode

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


def test_an_unknown_id_is_refused_with_near_ones():
    users = IdMap(pl.Series(["anna", "bert"]), noun="user")
    with pytest.raises(InputError, match="no user 'ann'; near ones are 'anna'"):
        users.code("ann")
    assert "bert" in users
    assert 7 not in users


@given(st.lists(st.integers(-50, 50)) | numbers | texts)
def test_ids_are_numbered_in_order_of_first_appearance(values):
    dtype = pl.String if values and isinstance(values[0], str) else pl.Int64
    ids, codes = encode(pl.Series(values, dtype=dtype))
    assert ids.to_list() == list(dict.fromkeys(values))
    assert [ids[int(code)] for code in codes] == values


@given(
    st.lists(st.text(max_size=4), min_size=1, max_size=40, unique=True),
    st.lists(st.text(max_size=4), min_size=1, max_size=40),
)
def test_few_texts_are_found_as_many_are(ids, others):
    users = IdMap(pl.Series(ids))
    wanted = ids + others
    expected = [ids.index(text) if text in ids else -1 for text in wanted]
    assert users.codes(wanted * 17).tolist() == expected * 17
    assert [int(users.codes([text])[0]) for text in wanted] == expected
