"""Options have one name on all surfaces, and one spelling in all commands."""

import re

import pytest

import surerec as sr
from checks import help as help_page
from checks import options

COLUMNS = ("--user-column", "wer", "--item-column", "was", "--time-column", "wann")


@pytest.fixture(scope="module")
def log(tmp_path_factory):
    consumed = sr.datasets.synthetic(
        n_users=120, n_items=30, n_rows=2_400, random_state=3
    ).to_frame()
    path = tmp_path_factory.mktemp("shop") / "log.csv"
    consumed.rename({"user_id": "wer", "item_id": "was", "datetime": "wann"}).write_csv(path)
    return path


def test_columns_are_read_by_their_names(cli, log):
    request = ("describe", log)
    refused = cli(*request)
    refused.assert_refused("no user or item or time column among 'wer', 'was', 'wann'. Pass")
    assert "--user-column NAME" in refused.err
    assert '--time-column "" if the rows are in time order' in refused.err
    assert re.search(r"Users +120", cli(*request, *COLUMNS).out)


def test_reproduce_reads_named_columns_and_checks_them_on_resume(cli, log, tmp_path):
    request = ("reproduce", "--datasets", log, "--output", tmp_path / "out", "--n-users", "4",
             "--timed-users", "0")  # fmt: skip
    assert "no user or item or time column" in cli(*request).err
    assert "no time column among" in cli(*request, "--overwrite", *COLUMNS[:4]).err
    assert "no time column among" in cli(*request, "--resume", *COLUMNS[:4]).err
    assert "was started with other settings" in cli(*request, "--resume", *COLUMNS).err


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("sqlite:///shop.db",), "reproduce does not read databases (--query)"),
        (("log.csv", "--query", "SELECT 1"), "reproduce does not read databases (--query)"),
    ],
)
def test_reproduce_refuses_databases(cli, tmp_path, words, says):
    done = cli("reproduce", "--output", tmp_path / "out", "--datasets", *words)
    done.assert_refused(says)
    assert not (tmp_path / "out").exists()


def test_options_have_the_same_name_on_all_surfaces():
    assert options.faults() == []
    assert options.PAGE.read_text(encoding="utf-8") == options.page(), (
        "run python -m checks.options"
    )


def test_the_help_of_every_command_is_as_recorded(cli):
    assert help_page.FILE.read_text(encoding="utf-8") == help_page.page(), "python -m checks.help"
    shown = cli("--help").out
    panels = ["First steps", "Calibration", "Research and operation", "Live models"]
    assert sorted(panels, key=shown.index) == panels
