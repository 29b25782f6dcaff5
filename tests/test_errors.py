import pytest

from surerec.errors import UnknownHistoryError, UnknownIdError


@pytest.mark.parametrize(
    ("make", "message"),
    [
        (
            lambda near: UnknownIdError("user", "ann", near),
            "There is no user 'ann'. Did you mean 'anna'?",
        ),
        (
            lambda near: UnknownHistoryError(range(7), near),
            "No item of the history (0, 1, 2, 3, 4) is in the data. Did you mean 'anna'?",
        ),
    ],
)
def test_similar_ids_are_searched_once_and_only_on_request(make, message):
    searches = []
    error = make(lambda: searches.append(1) or ["anna"])
    repr(error)
    assert not searches
    assert str(error) == message
    assert error.near == ("anna",)
    assert searches == [1]


def test_a_message_without_similar_ids_makes_no_suggestion():
    assert str(UnknownHistoryError(["a"])) == "No item of the history ('a') is in the data."
