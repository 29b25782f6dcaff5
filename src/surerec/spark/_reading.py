"""Files as a Spark DataFrame: Parquet, or text with a header or named columns."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any

from surerec.datasets import CATALOGUE
from surerec.errors import InputError
from surerec.spark._errors import plain_errors

if TYPE_CHECKING:
    from collections.abc import Sequence

    from pyspark.sql import DataFrame, SparkSession


_SEPARATORS = ("::", "\t", ";", "|", ",")


def read_frame(spark: SparkSession, data: str, columns: Sequence[str] | None = None) -> DataFrame:
    """Give the Spark DataFrame of a file or folder that all executors can read.

    Parameters
    ----------
    spark : SparkSession
        The session.
    data : str
        A path, or an address that Spark knows, such as ``hdfs://…`` or ``s3a://…``: Parquet if it
        is named so, else text in columns.
    columns : sequence of str, optional
        Names of all columns of a text without a header.
    """
    if data in CATALOGUE and not Path(data).exists():
        raise InputError(
            f"{data}: on Spark the data are a file or folder that all executors can read, not a "
            "name; write it as Parquet with load_dataset(…).to_frame().write_parquet(…)."
        )
    is_address = "://" in data
    if not is_address and not Path(data).exists():
        raise InputError(f"{data}: no such file.")
    # Not as an URI: Spark takes %20 for what it says.
    where = data if is_address else f"file://{Path(data).resolve()}"
    reader: Any = spark.read
    with plain_errors():
        if _is_parquet(data):
            frame: DataFrame = reader.parquet(where)
            return frame
        first = reader.text(where).limit(1).collect()
        if not first:
            raise InputError(f"{data}: the file is empty.")
        line = str(first[0][0])
        separator = next((mark for mark in _SEPARATORS if mark in line), ",")
        frame = reader.csv(where, sep=separator, header=not columns, quote='"', escape='"')
    if columns:
        if len(columns) != len(frame.columns):
            raise InputError(
                f"{data}: {len(columns)} columns are named, and there are {len(frame.columns)}."
            )
        frame = frame.toDF(*columns)
    return frame


def _is_parquet(data: str) -> bool:
    if data.rstrip("/").endswith((".parquet", ".pq")):
        return True
    path = Path(data)
    if path.is_dir():
        return any(path.glob("*.parquet"))
    return False
