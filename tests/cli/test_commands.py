"""The command line as a user runs it: output, messages and exit code."""

import os

import pytest


@pytest.fixture
def run(cli, tmp_path, monkeypatch):
    """Run ``surerec`` in an empty folder, with an empty cache and nothing reachable."""
    nowhere = {"SUREREC_CACHE": str(tmp_path / "cache"), "PIP_NO_INDEX": "1",
               "PIP_FIND_LINKS": str(tmp_path), "https_proxy": "http://127.0.0.1:9",
               "PIP_CONFIG_FILE": os.devnull}  # fmt: skip
    for name, value in nowhere.items():
        monkeypatch.setenv(name, value)
    monkeypatch.chdir(tmp_path)
    return cli


GOOD = "user,item,time\n" + "".join(f"{u},a,1\n{u},b,2\n" for u in range(9))


def test_describe_prints_counts_and_titles(run, write):
    titles = write("titles.csv", "item,title\na,Thing A\nb,Thing B\nz,New\n")
    done = run("describe", write("log.csv", GOOD), "--titles", titles)
    assert done.code == 0
    assert done.err.startswith("Next: surerec fit ")
    assert f"--titles {titles}" in done.err
    assert "1 title has no interactions and was skipped" in done.out


def test_bad_rows_are_refused_or_skipped_and_counted(run, write):
    path = write("log.csv", GOOD + "9,a,never\n")
    refused = run("describe", path)
    assert (refused.code, refused.out, refused.err.count("\n")) == (2, "", 1)
    said = "log.csv:20: cannot parse time 'never' (1 row). Fix it, or pass --skip-bad.\n"
    assert refused.err.endswith(said)
    skipped = run("describe", path, "--skip-bad")
    assert skipped.code == 0
    assert "18 of 19 rows; left out: 1 bad rows" in skipped.out


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["describe", "shpo.csv"], "shpo.csv: no such file; did you mean shop.csv?"),
        (["describe", "shop"], "shop: no such file; did you mean shop.csv?"),
        (["recommend", "modle", "--user", "7"], "There is no folder modle; did you mean model?"),
        (["describe", "ml-100"], "Unknown data set 'ml-100'. Did you mean ml-100k"),
        (["datasets", "fetch", "netflix-prize"], "path="),
        (["fit", "x.csv", "model", "--ties", "loose"], "loose"),
        (["paint"], "paint"),
    ],
)
def test_user_errors_are_one_message_and_exit_code_2(run, tmp_path, arguments, says):
    (tmp_path / "shop.csv").touch()
    (tmp_path / "model").mkdir()
    run(*arguments).assert_refused(says)


def test_the_catalogue_is_listed(run):
    done = run("datasets")
    assert done.code == 0
    for name in ("ml-100k", "ml-25m", "flixster", "netflix-prize", "1,000,209"):
        assert name in done.out
    assert run("--version").out.startswith("surerec ")


def test_fetching_without_network_names_every_source(run, tmp_path):
    done = run("datasets", "fetch", "ml-100k")
    done.assert_refused("files.grouplens.org", "recbole==1.2.1")
    assert not list((tmp_path / "cache").rglob("*.inter"))


def test_demo_falls_back_to_synthetic_data(run):
    done = run("demo")
    assert done.code == 0
    assert "uses synthetic data instead" in done.out
    assert "users who consumed Story" in done.out
