import polars as pl
import pytest

from surerec import InputError
from surerec.errors import (
    AlreadyConsumedError,
    NoConfidenceError,
    NotSupportedError,
    NoUsersError,
    UnknownHistoryError,
    UnknownIdError,
)
from surerec.interactions import IdMap


def test_all_are_input_errors_too():
    for error in (
        AlreadyConsumedError,
        NoConfidenceError,
        NotSupportedError,
        NoUsersError,
        UnknownHistoryError,
        UnknownIdError,
    ):
        assert issubclass(error, InputError)
        assert issubclass(error, ValueError)


def test_an_unknown_id_says_what_and_which():
    users = IdMap(pl.Series(["anna", "bert"]), noun="user")
    with pytest.raises(UnknownIdError) as caught:
        users.require(["bert", "ann"])
    error = caught.value
    assert (error.noun, error.value, error.near) == ("user", "ann", ("anna",))
    assert str(error) == "There is no user 'ann'. Did you mean 'anna'?"


def test_near_ids_are_looked_for_once_and_only_when_asked_for():
    asked = []
    for error in (
        UnknownIdError("user", "ann", lambda: asked.append(1) or ["anna"]),
        UnknownHistoryError(["ann"], lambda: asked.append(1) or ["anna"]),
    ):
        asked.clear()
        repr(error)
        assert not asked
        assert "'anna'" in str(error)
        assert error.near == ("anna",)
        assert asked == [1]


def test_an_unknown_history_names_its_first_items():
    error = UnknownHistoryError(range(7), lambda: [70])
    assert error.items == tuple(range(7))
    assert str(error) == ("No item of the history (0, 1, 2, 3, 4) is in the data. Did you mean 70?")
    assert str(UnknownHistoryError(["a"])) == "No item of the history ('a') is in the data."
