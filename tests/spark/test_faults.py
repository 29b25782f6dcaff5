"""What happens when tasks, executors and paths fail."""

import os
import signal

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.spark import Counting, count_precedence_spark, spark_session
from surerec.spark import _rows as counting_rows
from surerec.spark._counting import CountCells, write_both
from surerec.spark._session import run_numbered
from surerec.spark._staging import SealedArray, Staging
from surerec.storage import read_card

pytestmark = pytest.mark.spark


def rows(spark):
    frame = sr.datasets.synthetic(60, 25, 700, seed=2).to_frame()
    frame = frame.with_columns(pl.col("datetime").to_physical())
    return spark.createDataFrame(frame.rows(), frame.columns)


def test_what_a_task_cannot_do_comes_as_its_sentence(spark):
    def refuse(number):
        raise InputError(f"Task {number} has no use for this.")

    with pytest.raises(InputError, match=r"^Task \d has no use for this\.$"):
        run_numbered(spark, 1, refuse, "Refusing")


def test_an_exhausted_memory_is_said_so(spark):
    def take_all(_):
        raise MemoryError

    with pytest.raises(InputError, match=r"executors ran out of memory .*--executor-memory"):
        run_numbered(spark, 1, take_all, "Taking all memory")


def test_too_little_memory_for_one_row_is_refused_before_counting(spark, tmp_path):
    with pytest.raises(InputError, match="25 items takes 50 bytes, and a task may take 49 bytes"):
        count_precedence_spark(
            rows(spark), tmp_path / "model", counting=Counting(ties="strict", task_memory=49)
        )
    assert not list(tmp_path.iterdir())


def test_a_folder_of_something_else_is_refused_and_left_alone(spark, write, tmp_path):
    write("notes.txt", "mine")
    with pytest.raises(InputError, match="holds other files than a surerec model"):
        count_precedence_spark(rows(spark), tmp_path, counting=Counting(ties="strict"))
    assert [path.name for path in tmp_path.iterdir()] == ["notes.txt"]


def test_a_worker_killed_in_mid_count_changes_nothing(spark, tmp_path, monkeypatch):
    marker = tmp_path / "killed"
    counting = Counting(ties="strict", strategy="dense", blocks=(2, 2))

    class DiesOnce(CountCells):  # defined here, so that it travels to the workers as it is
        def __call__(self, batches):
            if not marker.exists():
                marker.touch()
                os.kill(os.getpid(), signal.SIGKILL)
            yield from CountCells.__call__(self, batches)

    data = rows(spark)
    count_precedence_spark(data, tmp_path / "quiet", counting=counting)
    monkeypatch.setattr(counting_rows, "CountCells", DiesOnce)
    count_precedence_spark(data, tmp_path / "model", counting=counting)
    assert marker.exists()
    assert read_card(tmp_path / "model")["files"] == read_card(tmp_path / "quiet")["files"]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["killed", "model", "quiet"]


def test_parts_written_twice_are_the_same_part(tmp_path):
    staging = Staging(str(tmp_path))
    staging.model.mkdir()
    for _ in range(2):
        staging.write("a", [b"\1\0\0\0"])
        staging.write("b", [b"\2\0\0\0\3\0\0\0"])
    name, record = staging.seal(SealedArray("support", "uint32", (3,), ("a", "b")))
    again, same = staging.seal(SealedArray("support", "uint32", (3,), ("a", "b")))
    assert (name, record) == (again, same)
    assert [path.name for path in staging.model.iterdir()] == [name]
    assert sorted(path.name for path in tmp_path.iterdir()) == ["a", "b", "model"]


def test_narrow_and_wide_parts_are_sealed_as_one_wide_array(tmp_path):
    staging = Staging(str(tmp_path))
    staging.model.mkdir()
    rows = np.arange(12, dtype=np.uint32).reshape(4, 3)
    rows[3, 2] = 70_000
    names = ("narrow", "wide")
    for name, some in zip(names, (rows[:3], rows[3:]), strict=True):
        write_both(staging, name, some)
    kinds = tuple(staging.facts(f"{name}-counter")["counter"] for name in names)
    assert kinds == ("uint16", "uint32")
    arrays = [
        SealedArray("followers", "uint32", rows.shape, names, kinds),
        SealedArray("predecessors", "uint32", rows.T.shape,
                    tuple(f"{name}-transposed" for name in names), kinds, across=True),
    ]  # fmt: skip
    for array, expected in zip(arrays, (rows, rows.T), strict=True):
        name, _ = staging.seal(array)
        found = np.load(staging.model / name)
        assert found.dtype == np.uint32
        np.testing.assert_array_equal(found, expected)


@pytest.mark.parametrize(
    ("master", "sentence"),
    [
        ("localhost:7077", "'localhost:7077' is no Spark master"),
        ("spark://127.0.0.1:9", "Nobody answers at the Spark master"),
    ],
)
@pytest.mark.usefixtures("spark_here")
def test_a_wrong_master(master, sentence):
    with pytest.raises(InputError, match=sentence):
        spark_session(master)


@pytest.mark.usefixtures("spark_here")
def test_a_missing_java(monkeypatch, tmp_path):
    monkeypatch.setenv("JAVA_HOME", str(tmp_path))
    with pytest.raises(InputError, match="where there is no Java"):
        spark_session()
    monkeypatch.delenv("JAVA_HOME")
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(InputError, match="Spark needs Java 17 or newer, and there is none"):
        spark_session()
