"""A Spark session, files as its DataFrames, and tasks with progress and errors in a sentence."""

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
    """Return the Spark DataFrame of a file or folder that all executors can read.

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
    is_address = "://" in data
    if not is_address and not Path(data).exists():
        raise InputError(
            f"{data}: no such file; on Spark the data are a file or folder that all executors can "
            "read, not the name of a data set."
        )
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


# The first that is found counts; what its group found fills the sentence.
_SENTENCES: Final = (
    (
        r"InputError: There is no folder ([^;\n]+)",
        (
            "An executor does not see {}: the model folder must be on a path that the driver and "
            "all executors share."
        ),
    ),
    (r"surerec\.errors\.\w+: ([^\n]+)", "{}"),
    (
        (
            r"(OutOfMemoryError|MemoryError|exit(?:ed with)? code 137|Cannot allocate memory|"
            r"Container killed|beyond (?:the )?physical memory|Unable to allocate)"
        ),
        (
            "The executors ran out of memory ({}); give them more (spark.executor.memory and "
            "spark.executor.memoryOverhead, or --executor-memory), or let a task take less with "
            "task_memory (--task-memory)."
        ),
    ),
    (
        r"No module named '(surerec|numba|polars|pyarrow)",
        (
            "The executors have no {}: install surerec in the Python that they run, and name that "
            "Python in PYSPARK_PYTHON."
        ),
    ),
    (
        r"(PYTHON_VERSION_MISMATCH)",
        (
            "The executors run another version of Python than the driver ({}); name one that all "
            "machines have in PYSPARK_PYTHON."
        ),
    ),
    (
        r"FileNotFoundError:.*?: '([^']+)'",
        (
            "An executor does not see {}: the model folder must be on a path that the driver and "
            "all executors share."
        ),
    ),
    (
        r"PermissionError:.*?: '([^']+)'",
        "An executor may not write {}: give it the right to, or name another shared path.",
    ),
    (r"PATH_NOT_FOUND\] ([^\n]+)", "Spark finds no data there: {}"),
    (
        r"(No space left on device|Disk quota exceeded)",
        "The shared path is full ({}): make room there, or count with strategy='bounded'.",
    ),
    (
        r"(ExecutorLostFailure|executors? (?:was|were) lost)",
        (
            "Executors were lost more often than Spark tries again ({}); look into their logs, for "
            "most often they lacked memory."
        ),
    ),
    (r"\s*(\S[^\n]{0,300})", "Spark could not do it: {}"),
)


def sentence_for(text: str) -> str:
    """Find the sentence for what Spark said.

    Examples
    --------
    >>> sentence_for("[PATH_NOT_FOUND] Path does not exist: file:/nowhere. SQLSTATE: 42K03")
    'Spark finds no data there: Path does not exist: file:/nowhere. SQLSTATE: 42K03'
    """
    for pattern, sentence in _SENTENCES:
        if found := re.search(pattern, text):
            return sentence.format(found[1].strip())
    return "Spark could not do it, and gave no reason."


@contextmanager
def plain_errors() -> Iterator[None]:
    """Turn what Spark raises into one sentence that says what to do."""
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


_SECONDS_TO_KNOCK = 5
_SETTINGS: Final = {
    "spark.log.level": "ERROR",  # errors come as a sentence; no more
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.maxRecordsPerBatch": "20000",
    # No limit: with any other Spark adds bytes up after every row.
    "spark.sql.execution.arrow.maxBytesPerBatch": str(2**31 - 1),
}


def require_spark() -> None:
    """Refuse to go on without pyspark or Java."""
    if find_spec("pyspark") is None:
        raise InputError("Spark needs pyspark: pip install 'surerec[spark]'.")
    home = os.environ.get("JAVA_HOME")
    if shutil.which("java", path=str(Path(home) / "bin") if home else None) is None:
        where = f" in JAVA_HOME, {home}" if home else ""
        raise InputError(
            f"Spark needs Java 17 or newer, and there is none{where}: install it (on Debian and "
            "Ubuntu openjdk-17-jre-headless), or name it in JAVA_HOME."
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
        As Spark writes it: ``local[4]``, ``spark://host:7077``, ``yarn``, ``k8s://…``; by default
        what ``spark-defaults.conf`` says, else this machine's cores.
    executor_memory : str, optional
        As Spark writes it, such as ``4g``.
    settings : mapping of str to str, optional
        Any of Spark's settings.

    Raises
    ------
    InputError
        If pyspark or Java is missing, or the master cannot be used or reached.
    """
    require_spark()
    if master is not None and master.startswith("spark://"):
        _check_master(master)
    # The same Python everywhere, on one machine: a cluster names its own.
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
            warnings.simplefilter("ignore")  # on pandas, hosts and ports: nothing to do about
            session: SparkSession = builder.getOrCreate()
    except Exception as error:
        if not _is_of_spark(error):
            raise
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise InputError(
                "Java did not start Spark; see what it says above, and that it is Java 17 or newer."
            ) from error
        lines = str(error).splitlines()
        reason = next((line for line in lines if "Exception: " in line), lines[0])
        raise InputError(
            f"Spark did not start on the master {master!r}: {reason.split('Exception: ')[-1]}"
        ) from error
    return session


def _check_master(master: str) -> None:
    """Refuse a standalone master that does not answer: Spark would try for minutes."""
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        with suppress(OSError, ValueError, OverflowError):
            socket.create_connection((host, int(port)), timeout=_SECONDS_TO_KNOCK).close()
            return
    raise InputError(
        f"Nobody answers at the Spark master {master}; check the address, and that it is running."
    )


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at a time."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    return int(context.defaultParallelism) if context is not None else 8


_MANY_OBJECTS = 20_000


def map_arrow(
    frame: DataFrame,
    task: Callable[[Iterable[pa.RecordBatch]], Iterator[pa.RecordBatch]],
    schema: str,
) -> DataFrame:
    """Map batches on executors, one thread a task: Spark deals out the cores."""

    def run(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        os.environ["SUREREC_THREADS"] = "1"
        yield from task(batches)
        spare_collections()

    with warnings.catch_warnings():
        # What PySpark thinks of the installed pandas is no concern here: only Arrow is used.
        warnings.simplefilter("ignore", FutureWarning)
        return frame.mapInArrow(run, schema)


def spare_collections() -> None:
    """Take what a worker has loaded out of garbage collections, where that is much.

    Spark's workers collect garbage after each task and look at every object then: 90 ms a task,
    with polars and numba there. What lives now is modules and compiled kernels, which stay.
    """
    if len(gc.get_objects()) > _MANY_OBJECTS:  # those that were taken out are not among them
        gc.collect()
        gc.freeze()


def run_numbered(
    spark: SparkSession, n_tasks: int, task: Callable[[int], Any], description: str
) -> list[Any]:
    """Run a task for each number, and return the results; they travel as JSON."""

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
    """Bring a small result to the driver, with its stages shown."""
    with stage(frame.sparkSession, description), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return frame.toArrow()


@contextmanager
def stage(spark: SparkSession, description: str) -> Iterator[None]:
    """Describe the jobs inside in the log and on Spark's pages; raise their errors as a sentence.

    How far they are shows Spark itself, on a terminal.
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
