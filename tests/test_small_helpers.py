import pytest

from surerec import InputError
from surerec._compiling import first_use_notice
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


def test_compiling_is_announced_once_on_a_terminal(monkeypatch, tmp_path, capsys):
    monkeypatch.setenv("SUREREC_CACHE", str(tmp_path / "new"))
    monkeypatch.setenv("FORCE_COLOR", "1")  # rich takes it for a terminal
    for _ in range(2):
        with first_use_notice():
            pass
    assert capsys.readouterr().err.count("Compiling") == 1


def test_a_cache_that_cannot_be_written_to_is_no_error(monkeypatch, tmp_path):
    (tmp_path / "file").touch()
    monkeypatch.setenv("SUREREC_CACHE", str(tmp_path / "file" / "below"))
    with first_use_notice():
        pass
    assert (tmp_path / "file").is_file()
