"""An experiment whose users are evaluated on Spark gives the numbers of the local run."""

import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.experiments import DataSource, StudySettings, run
from surerec.spark import SparkEngine

pytestmark = pytest.mark.spark


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.csv"
    sr.datasets.synthetic(n_users=60, n_items=50, n_rows=1_500, seed=6).to_frame().write_csv(path)
    return path


@pytest.fixture(scope="module")
def settings(ratings):
    return StudySettings(
        (DataSource.parse(str(ratings)),), n_users=25, timed_users=0, tuning_users=2
    )


@pytest.fixture(scope="module")
def expected(settings, tmp_path_factory):
    return run(settings, tmp_path_factory.mktemp("local") / "out")


@pytest.mark.usefixtures("spark")
def test_the_command_gives_the_numbers_of_the_local_run(
    cli, ratings, expected, tmp_path, monkeypatch
):
    # Figures are drawn from the tables, wherever those were made, and take long.
    monkeypatch.setattr("surerec.experiments._run.write_report", lambda *_: None)
    monkeypatch.chdir(tmp_path)  # executors work elsewhere, and must write where this means
    given = ("--datasets", ratings, "--users", 25, "--timed-users", 0, "--tuning-users", 2)
    done = cli("reproduce", *given, "--output", "out", "--engine", "spark")
    assert done.code == 0, done.err
    for table in ("metrics", "curves", "validity", "tuning"):
        found = pl.read_parquet(tmp_path / "out" / f"{table}.parquet")
        assert found.equals(getattr(expected, table))
    parts = tmp_path / "out" / "parts" / "small"
    assert {path.suffix for path in parts.iterdir()} == {".parquet"}, "the statistics are gone"


def test_a_run_goes_on_on_spark_with_what_is_there(spark, settings, expected, tmp_path):
    output = tmp_path / "out"
    run(settings, output)
    parts = output / "parts" / "small"
    kept = parts / "time-00000.parquet"
    before = kept.stat().st_mtime_ns
    for path in (parts / "time-00010.parquet", parts / "random-00020.parquet"):
        path.unlink()
    again = run(settings, output, resume=True, engine=SparkEngine(spark))
    assert again.metrics.equals(expected.metrics)
    assert kept.stat().st_mtime_ns == before


def test_a_folder_that_executors_do_not_see_is_refused(spark, settings, tmp_path, monkeypatch):
    monkeypatch.setattr("surerec.spark._evaluating.save_model", lambda *_: None)  # elsewhere
    with pytest.raises(InputError, match=r"An executor does not see .*\.statistics-"):
        run(settings, tmp_path / "out", engine=SparkEngine(spark))


def test_options_of_spark_need_spark(cli, ratings, tmp_path):
    given = ("--datasets", ratings, "--output", tmp_path / "out", "--master", "local[2]")
    refused = cli("reproduce", *given)
    assert refused.code == 2
    assert "--master is for Spark: add --engine spark." in refused.err
