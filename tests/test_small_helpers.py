import pytest

from surerec import InputError
from surerec._memory import from_words


@pytest.mark.parametrize(
    ("text", "n_bytes"),
    [("2GB", 2 * 10**9), ("1.5 GB", 15 * 10**8), ("500MB", 5 * 10**8), ("64kB", 64_000), ("7", 7)],
)
def test_amounts_of_memory_are_read_as_people_write_them(text, n_bytes):
    assert from_words(text) == n_bytes


@pytest.mark.parametrize("text", ["", "much", "-2GB", "2 XB"])
def test_what_is_no_amount_is_refused(text):
    with pytest.raises(InputError, match="write it as 2GB"):
        from_words(text)
