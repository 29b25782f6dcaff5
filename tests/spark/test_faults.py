"""What happens when tasks, executors and paths fail."""

import os
import signal

import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.spark import Counting, fit_spark, spark_session
from surerec.spark._bundles import write_bundles
from surerec.spark._counting import CountingGrid
from surerec.spark._session import run_numbered
from surerec.storage import read_card

pytestmark = pytest.mark.spark


def rows(spark):
    frame = sr.datasets.synthetic(60, 25, 700, random_state=2).to_frame()
    frame = frame.with_columns(pl.col("datetime").to_physical())
    return spark.createDataFrame(frame.rows(), frame.columns)


@pytest.mark.parametrize(
    ("error", "sentence"),
    [
        (InputError("This task is not possible."), r"^This task is not possible\.$"),
        (MemoryError(), r"executors ran out of memory .*--executor-memory"),
        (OSError(28, "No space left on device"), "The shared path is full .*Free disk space"),
        (FileNotFoundError(2, "no", "/data"), "An executor cannot find /data. Put the model"),
        (PermissionError(13, "no", "/data"), "An executor may not write to /data. Change the perm"),
    ],
)
def test_errors_of_tasks_become_messages(spark, error, sentence):
    def fail(_):
        raise error

    with pytest.raises(InputError, match=sentence):
        run_numbered(spark, 1, fail, "Failing")


def test_too_little_memory_for_one_row_is_refused_before_counting(spark, tmp_path):
    with pytest.raises(InputError, match="25 items needs 50 bytes, but task_memory is 49 bytes"):
        fit_spark(rows(spark), tmp_path / "model", counting=Counting(ties="strict", task_memory=49))
    assert not list(tmp_path.iterdir())


def test_a_folder_of_other_files_is_refused_and_unchanged(spark, write, tmp_path):
    write("notes.txt", "mine")
    with pytest.raises(InputError, match="holds other files than a surerec model"):
        fit_spark(rows(spark), tmp_path, counting=Counting(ties="strict"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


@pytest.mark.parametrize("stage", ["reading", "counting"])
def test_a_killed_worker_changes_nothing(spark, tmp_path, monkeypatch, stage):
    marker = tmp_path / "killed"

    def die_once():
        if not marker.exists():
            marker.touch()
            os.kill(os.getpid(), signal.SIGKILL)

    # Defined here, so that they travel to the workers as they are.
    def bundles_once(staging, batches):
        yield from write_bundles(staging, list(batches))
        die_once()  # when its bundles are written, and not done of

    class DiesOnce(CountingGrid):
        def count(self, *cell):
            die_once()
            return CountingGrid.count(self, *cell)

    counting = Counting(ties="strict", strategy="dense", blocks=(2, 2))
    data = rows(spark)
    fit_spark(data, tmp_path / "quiet", counting=counting)
    if stage == "reading":
        monkeypatch.setattr("surerec.spark._profiles.write_bundles", bundles_once)
    else:
        monkeypatch.setattr("surerec.spark._counting.CountingGrid", DiesOnce)
    fit_spark(data, tmp_path / "model", counting=counting)
    assert marker.exists()
    assert read_card(tmp_path / "model")["files"] == read_card(tmp_path / "quiet")["files"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "model", "quiet"]


@pytest.mark.usefixtures("spark_here")
def test_a_silent_master():
    with pytest.raises(InputError, match=r"The Spark master .* does not answer"):
        spark_session("spark://127.0.0.1:9")


@pytest.mark.usefixtures("spark_here")
def test_a_missing_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="none in JAVA_HOME, /"):
        spark_session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="Spark needs Java 17 or newer, and there is none"):
        spark_session()
