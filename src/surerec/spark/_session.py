"""The Spark session, its DataFrames from files, and tasks with progress and readable errors."""

from __future__ import annotations

import gc
import json
import os
import re
import shutil
import socket
import sys
import warnings
from contextlib import contextmanager, suppress
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from surerec._progress import LOGGER
from surerec.errors import InputError, SurerecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession


_SEPARATORS = ("::", "\t", ";", "|", ",")


def read_frame(spark: SparkSession, data: str, columns: Sequence[str] | None = None) -> DataFrame:
    """Read a file or folder that all executors can read as a Spark DataFrame.

    Parameters
    ----------
    spark : SparkSession
        Spark session.
    data : str
        A path, or an address such as ``hdfs://…`` or ``s3a://…``. Parquet is recognised by its
        name; other files are delimited text.
    columns : sequence of str, optional
        Names of all columns, for text without a header.
    """
    is_address = "://" in data
    if not is_address and not Path(data).exists():
        raise InputError(
            f"{data}: no such file. On Spark, pass a file or folder that all executors can read, "
            "not the name of a dataset."
        )
    # Not as a URI, because Spark does not decode %20.
    where = data if is_address else f"file://{Path(data).resolve()}"
    reader: Any = spark.read
    with plain_errors():
        if _is_parquet(data):
            frame: DataFrame = reader.parquet(where)
            return frame
        first = reader.text(where).limit(1).collect()
        if not first:
            raise InputError(f"{data}: the file is empty; pass another file.")
        line = str(first[0][0])
        separator = next((mark for mark in _SEPARATORS if mark in line), ",")
        frame = reader.csv(where, sep=separator, header=not columns, quote='"', escape='"')
    if columns:
        if len(columns) != len(frame.columns):
            raise InputError(
                f"{data}: columns has {len(columns)} names, but the file has "
                f"{len(frame.columns)} columns; name all of them."
            )
        frame = frame.toDF(*columns)
    return frame


def _is_parquet(data: str) -> bool:
    path, is_named = Path(data), data.rstrip("/").endswith((".parquet", ".pq"))
    return is_named or (path.is_dir() and any(path.glob("*.parquet")))


_NOT_FOUND: Final = (
    "An executor cannot find {}. Put the model folder on a path that the driver and all executors "
    "share."
)
# The first pattern that matches gives the message; its group fills the placeholder.
_SENTENCES: Final = (
    (r"InputError: There is no folder ([^;\n]+)", _NOT_FOUND),
    (r"surerec\.errors\.\w+: ([^\n]+)", "{}"),
    (
        (
            r"(OutOfMemoryError|MemoryError|exit(?:ed with)? code 137|Cannot allocate memory|"
            r"Container killed|beyond (?:the )?physical memory|Unable to allocate)"
        ),
        (
            "The executors ran out of memory ({}). Raise spark.executor.memory and "
            "spark.executor.memoryOverhead (--executor-memory), or lower task_memory= "
            "(--task-memory)."
        ),
    ),
    (
        r"No module named '(surerec|numba|polars|pyarrow)",
        (
            "The executors cannot import {}. Install surerec in their Python, and set "
            "PYSPARK_PYTHON to it."
        ),
    ),
    (
        r"(PYTHON_VERSION_MISMATCH)",
        (
            "The executors and the driver run different versions of Python ({}). Set "
            "PYSPARK_PYTHON to a Python that all machines have."
        ),
    ),
    (r"FileNotFoundError:.*?: '([^']+)'", _NOT_FOUND),
    (
        r"PermissionError:.*?: '([^']+)'",
        "An executor may not write to {}. Change the permissions, or use another shared path.",
    ),
    (r"PATH_NOT_FOUND\] ([^\n]+)", "Spark cannot find the data: {}"),
    (
        r"(No space left on device|Disk quota exceeded)",
        "The shared path is full ({}). Free disk space, or use strategy='bounded'.",
    ),
    (
        r"(ExecutorLostFailure|executors? (?:was|were) lost)",
        (
            "Spark lost executors too often ({}). Check their logs; the usual reason is too "
            "little memory."
        ),
    ),
    (r"\s*(\S[^\n]{0,300})", "Spark failed: {}"),
)


def sentence_for(text: str) -> str:
    """Return the message for an error of Spark.

    Examples
    --------
    >>> sentence_for("[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE: 42K03")
    'Spark cannot find the data: Path does not exist: file:/nowhere. SQLSTATE: 42K03'
    """
    for pattern, sentence in _SENTENCES:
        if found := re.search(pattern, text):
            return sentence.format(found[1].strip())
    return "Spark failed without a message; check its logs."


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn errors of Spark into an InputError with a remedy."""
    try:
        yield
    except SurerecError:
        raise
    except Exception as error:
        if not _is_of_spark(error):
            raise
        raise InputError(sentence_for(str(error))) from error


def _is_of_spark(error: Exception) -> bool:
    return type(error).__module__.startswith(("pyspark", "py4j"))


_CONNECT_TIMEOUT = 5
_SETTINGS: Final = {
    "spark.log.level": "ERROR",  # errors are raised as InputError
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # No limit, because Spark would sum up bytes after every row.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


def require_spark() -> None:
    """Raise InputError if pyspark or Java is missing."""
    if find_spec("pyspark") is None:
        raise InputError(
            "Spark needs pyspark, which is not installed. Run pip install 'surerec[spark]'."
        )
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        where = f" in JAVA_HOME, {home}" if home else ""
        raise InputError(
            f"Spark needs Java 17 or newer, and there is none{where}. Install it (on Debian and "
            "Ubuntu openjdk-17-jre-headless), or set JAVA_HOME."
        )


def spark_session(
    master: str | None = None,
    *,
    executor_memory: str | None = None,
    settings: Mapping[str, str] | None = None,
) -> SparkSession:
    """Return the running Spark session, or start one.

    Parameters
    ----------
    master : str, optional
        Spark master: ``local[4]``, ``spark://host:7077``, ``yarn`` or ``k8s://…``. The default is
        that of ``spark-defaults.conf``, or all local cores.
    executor_memory : str, optional
        Memory of an executor, such as ``4g``.
    settings : mapping of str to str, optional
        Spark settings.

    Raises
    ------
    InputError
        If pyspark or Java is missing, or the master cannot be used or reached.
    """
    require_spark()
    if master is not None and master.startswith("spark://"):
        _check_master(master)
    # The same Python for local workers; a cluster sets its own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.sql import SparkSession  # noqa: PLC0415  # an extra

    builder: Any = SparkSession.Builder().appName("surerec")
    given = {**_SETTINGS, "spark.ui.showConsoleProgress": str(sys.stderr.isatty()).lower()}
    given |= {} if master is None else {"spark.master": master}
    given |= {} if executor_memory is None else {"spark.executor.memory": executor_memory}
    for name, value in {**given, **(settings or {})}.items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # about pandas, hosts and ports
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        if not _is_of_spark(error):
            raise
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise InputError(
                "Java could not start Spark; read its message above, and use Java 17 or newer."
            ) from error
        lines = str(error).splitlines()
        reason = next((line for line in lines if "Exception: " in line), lines[0])
        raise InputError(
            f"Spark could not start on master {master!r}: {reason.split('Exception: ')[-1]}"
        ) from error
    return session


def _check_master(master: str) -> None:
    """Refuse a standalone master that does not answer; Spark itself would retry for minutes."""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host, int(port)), timeout=_CONNECT_TIMEOUT).close()
            return
    raise InputError(f"The Spark master {master} does not answer; check its address, and start it.")


def cores(spark: SparkSession) -> int:
    """Return the number of tasks that run in parallel."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    return int(context.defaultParallelism) if context is not None else 8


_MANY_OBJECTS = 20_000


def map_arrow(
    frame: DataFrame,
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Map batches on executors, with one thread per task, because Spark assigns the cores."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ["SUREREC_THREADS"] = "1"
        yield from task(batches)
        spare_collections()

    with warnings.catch_warnings():
        # PySpark warns about the installed pandas, but only Arrow is used here.
        warnings.simplefilter("ignore", FutureWarning)
        return frame.mapInArrow(run, schema)


def spare_collections() -> None:
    """Exclude the loaded modules of a worker from garbage collection.

    Spark's workers collect garbage after each task, which costs 90 ms with polars and numba loaded.
    Modules and compiled kernels stay alive anyway.
    """
    if len(gc.get_objects()) > _MANY_OBJECTS:  # excludes frozen objects
        gc.collect()
        gc.freeze()


def run_numbered(
    spark: SparkSession, n_tasks: int, task: Callable[[int], Any], description: str
) -> list[Any]:
    """Run a task for each number, and return the results, which are sent as JSON."""

    def run(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for number in batch.column(0).to_pylist():
                answer = {"number": [number], "answer": [json.dumps(task(number))]}
                yield pa.RecordBatch.from_pydict(answer)

    numbers = spark.range(0, n_tasks, 1, n_tasks)
    table = collect(map_arrow(numbers, run, "number bigint, answer string"), description)
    found = sorted(zip(table["number"].to_pylist(), table["answer"].to_pylist(), strict=True))
    return [json.loads(answer) for _, answer in found]


def collect(frame: DataFrame, description: str) -> pa.Table:
    """Collect a small result on the driver, with progress."""
    with stage(frame.sparkSession, description), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.toArrow()


@contextmanager
def stage(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe jobs in the log and in the Spark UI, and raise their errors as InputError.

    On a terminal, Spark shows its own progress.
    """
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    LOGGER.info("%s …", description)
    if context is not None:
        context.setJobDescription(description)
    try:
        with plain_errors():
            yield
    finally:
        if context is not None:
            context.setJobDescription(None)
