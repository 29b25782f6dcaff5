import polars as pl
import pytest

from surerec import InputError
from surerec.errors import (
    InProfile,
    NoConfidence,
    NotOffered,
    NoUsers,
    UnknownHistory,
    UnknownId,
    UnknownRecommender,
)
from surerec.interactions import IdMap


@pytest.mark.parametrize(
    "error",
    [
        InProfile(1, "it has no p-value"),
        NoConfidence("no"),
        NotOffered("no"),
        NoUsers("no"),
        UnknownHistory([1]),
        UnknownId("user", 1),
        UnknownRecommender("no"),
    ],
)
def test_all_are_what_callers_caught_before(error):
    assert isinstance(error, InputError)
    assert isinstance(error, ValueError)


def test_an_unknown_id_says_what_and_which():
    users = IdMap(pl.Series(["anna", "bert"]), noun="user")
    with pytest.raises(UnknownId) as caught:
        users.require(["bert", "ann"])
    error = caught.value
    assert (error.noun, error.value, error.near) == ("user", "ann", ("anna",))
    assert str(error) == "There is no user 'ann'; near ones are 'anna'."


def test_an_id_that_nothing_is_near_to():
    with pytest.raises(UnknownId) as caught:
        IdMap(pl.Series([1, 2]), noun="item").code("x")
    assert str(caught.value) == "There is no item 'x'."
    assert caught.value.near == ()


def test_near_ids_are_looked_for_once_and_only_when_asked_for():
    asked = []
    for error in (
        UnknownId("user", "ann", lambda: asked.append(1) or ["anna"]),
        UnknownHistory(["ann"], lambda: asked.append(1) or ["anna"]),
    ):
        asked.clear()
        repr(error)
        assert not asked
        assert "'anna'" in str(error)
        assert error.near == ("anna",)
        assert asked == [1]


def test_an_unknown_history_names_its_first_items():
    error = UnknownHistory(range(7), lambda: [70])
    assert error.items == tuple(range(7))
    assert str(error) == (
        "Nobody in the data took any item of the history (0, 1, 2, 3, 4); near the first are 70."
    )
    assert str(UnknownHistory(["a"])) == "Nobody in the data took any item of the history ('a')."


def test_an_item_of_the_profile_is_named():
    error = InProfile("a", "there is nothing to explain")
    assert error.item == "a"
    assert str(error) == "Item 'a' is in the known profile: there is nothing to explain."
