"""The command line as a person uses it: a process, its two streams, and its exit code."""

import os
import subprocess
import sys

import pytest


@pytest.fixture
def run(tmp_path):
    """Run ``surerec`` in an empty folder, with an empty cache and nothing reachable."""

    def run_surerec(*arguments, **environment):
        nowhere = {"SUREREC_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1",
                   "PIP_FIND_LINKS": str(tmp_path), "https_proxy": "http://127.0.0.1:9",
                   "PIP_CONFIG_FILE": os.devnull}  # fmt: skip
        return subprocess.run(  # noqa: S603  # our own command
            [sys.executable, "-c", "from surerec.cli import main; main()", *map(str, arguments)],
            capture_output=True,
            text=True,
            timeout=120,
            check=False,
            cwd=tmp_path,
            env=os.environ | nowhere | environment,
        )

    return run_surerec


GOOD = "user,item,time\n" + "".join(f"{u},a,1\n{u},b,2\n" for u in range(9))


def test_describe_says_what_a_file_holds_and_which_order_says_most(run, write):
    done = run("describe", write("log.csv", GOOD))
    assert done.returncode == 0
    assert done.stderr == ""
    assert "of 9 people who took a, 9 later took b, 0 the other way round" in done.stdout


def test_bad_rows_are_refused_or_skipped_and_counted(run, write):
    path = write("log.csv", GOOD + "9,a,never\n")
    refused = run("describe", path)
    assert refused.returncode == 2
    assert refused.stdout == ""
    assert "line 20, 'never'" in refused.stderr
    assert "--skip-bad" in refused.stderr
    assert "Traceback" not in refused.stderr
    assert refused.stderr.count("\n") == 1
    skipped = run("describe", path, "--skip-bad")
    assert skipped.returncode == 0
    assert "18 of 19 rows read; left out: 1 bad rows" in skipped.stdout


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["describe", "nowhere.csv"], "nowhere.csv: no such file"),
        (["describe", "ml-100"], "no data set 'ml-100'; did you mean ml-100k"),
        (["datasets", "fetch", "ml100k"], "did you mean ml-100k"),
        (["datasets", "fetch", "netflix-prize"], "path="),
        (["describe", "x.csv", "--ties", "loose"], "loose"),
        (["paint"], "paint"),
    ],
)
def test_a_users_error_is_a_sentence_and_exit_code_2(run, arguments, says):
    done = run(*arguments)
    assert done.returncode == 2
    assert says in done.stderr
    assert "Traceback" not in done.stderr


def test_the_catalogue_is_listed(run):
    done = run("datasets")
    assert done.returncode == 0
    for name in ("ml-100k", "ml-25m", "flixster", "netflix-prize", "1,000,209"):
        assert name in done.stdout


def test_without_any_network_fetching_names_every_source_tried(run, tmp_path):
    done = run("datasets", "fetch", "ml-100k")
    assert done.returncode == 2
    assert "files.grouplens.org" in done.stderr
    assert "recbole==1.2.1" in done.stderr
    assert not list((tmp_path / "cache").rglob("*.inter"))


def test_the_demo_says_so_when_made_up_data_stand_in(run):
    done = run("demo")
    assert done.returncode == 0
    assert "made-up data stand in" in done.stdout
    assert "people who took Story" in done.stdout


def test_help_and_version(run):
    assert "Examples" in run("describe", "--help").stdout
    assert run("--version").stdout.startswith("surerec ")
