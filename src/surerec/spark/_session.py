"""A Spark session, files as its DataFrames, and tasks with progress and errors in a sentence."""

from __future__ import annotations

import gc
import json
import os
import re
import secrets
import shutil
import socket
import sys
import threading
import warnings
from contextlib import contextmanager
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from surerec._progress import progress
from surerec.datasets import CATALOGUE
from surerec.errors import InputError, SurerecError

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence

    from pyspark.sql import DataFrame, SparkSession

    from surerec.spark._staging import Staging


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


# The first that is found counts; what its group found fills the sentence.
_SENTENCES: Final = (
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
            "An executor does not find {}: the model folder must be on a path that the driver and "
            "all executors share."
        ),
    ),
    (
        r"PermissionError:.*?: '([^']+)'",
        "An executor may not write {}: give it the right to, or name another shared path.",
    ),
    (r"PATH_NOT_FOUND\] ([^\n]+)", "Spark finds no data there: {}"),
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
        if not type(error).__module__.startswith(("pyspark", "py4j")):
            raise
        raise InputError(sentence_for(str(error))) from error


_MASTER = re.compile(
    r"local(\[(\d+|\*)(,\s*\d+)?\])?|local-cluster\[\d+,\s*\d+,\s*\d+\]|spark://.+:\d+|yarn|k8s://.+"
)
_SECONDS_TO_KNOCK = 5


def require_spark() -> None:
    """Refuse to go on without pyspark or Java."""
    if find_spec("pyspark") is None:
        raise InputError("Spark needs pyspark: pip install 'surerec[spark]'.")
    home = os.environ.get("JAVA_HOME")
    at_home = shutil.which("java", path=str(Path(home) / "bin")) if home else None
    if home and at_home is None:
        raise InputError(f"JAVA_HOME is {home}, where there is no Java; name a Java 17 or newer.")
    if at_home is None and shutil.which("java") is None:
        raise InputError(
            "Spark needs Java 17 or newer, and there is none: install it (on Debian and Ubuntu "
            "openjdk-17-jre-headless), or name it in JAVA_HOME."
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
    if master is not None:
        _check_master(master)
    # The same Python everywhere, on one machine: a cluster names its own.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    from pyspark.errors import PySparkException  # noqa: PLC0415  # an extra
    from pyspark.sql import SparkSession  # noqa: PLC0415

    builder: Any = SparkSession.Builder().appName("surerec")
    builder = builder.config("spark.ui.showConsoleProgress", "false")
    builder = builder.config("spark.log.level", "ERROR")  # errors come as a sentence; no more
    builder = builder.config("spark.sql.session.timeZone", "UTC")
    if master is not None:
        builder = builder.master(master)
    if executor_memory is not None:
        builder = builder.config("spark.executor.memory", executor_memory)
    for name, value in (settings or {}).items():
        builder = builder.config(name, value)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # on pandas, hosts and ports: nothing to do about
            session: SparkSession = builder.getOrCreate()
    except PySparkException as error:
        if "JAVA_GATEWAY_EXITED" in str(error):
            raise InputError(
                "Java did not start Spark; see what it says above, and that it is Java 17 or newer."
            ) from error
        raise InputError(f"Spark did not start: {str(error).splitlines()[0]}") from error
    except Exception as error:
        if not type(error).__module__.startswith("py4j"):
            raise
        reason = next((x for x in str(error).splitlines() if "Exception: " in x), str(error))
        raise InputError(
            f"Spark did not start on the master {master!r}: {reason.split('Exception: ')[-1]}"
        ) from error
    return session


def _check_master(master: str) -> None:
    if not _MASTER.fullmatch(master):
        raise InputError(
            f"{master!r} is no Spark master: write local[4], spark://host:7077, yarn or "
            "k8s://https://host:port."
        )
    if not master.startswith("spark://"):
        return
    addresses = master.removeprefix("spark://").split(",")
    for address in addresses:
        host, _, port = address.rpartition(":")
        try:
            with socket.create_connection((host, int(port)), timeout=_SECONDS_TO_KNOCK):
                return
        except (OSError, ValueError, OverflowError):
            continue
    raise InputError(
        f"Nobody answers at the Spark master {master}; check the address, and that it is running."
    )


def cores(spark: SparkSession) -> int:
    """Return how many tasks run at a time."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none
    return int(context.defaultParallelism) if context is not None else 8


def check_seen(spark: SparkSession, model: Path) -> None:
    """Refuse a model folder that an executor does not see."""
    seen = run_numbered(
        spark, cores(spark), lambda _: model.is_dir(), "Looking at the model folder"
    )
    if not all(seen):
        raise InputError(
            f"An executor does not see {model}: the model folder must be on a path that the "
            "driver and all executors share."
        )


def check_shared(spark: SparkSession, staging: Staging) -> None:
    """Refuse a folder that executors and driver do not share."""
    staging.write_facts("shared", {})
    folder = staging.path("")

    def look(number: int) -> str | None:
        if not staging.path("shared").exists():
            return "does not see"
        try:
            staging.write_facts(f"shared-{number}", {})
        except OSError:
            return "cannot write into"
        return None

    n_tasks = cores(spark)
    for problem in run_numbered(spark, n_tasks, look, "Looking at the shared folder"):
        if problem:
            raise InputError(
                f"An executor {problem} {folder.parent}: the model folder must be on a path that "
                "the driver and all executors share and may write to."
            )
    for number in range(n_tasks):
        if not staging.path(f"shared-{number}").exists():
            raise InputError(
                f"What an executor writes into {folder.parent} is not seen here: the model folder "
                "must be on a path that the driver and all executors share."
            )


_SECONDS_BETWEEN_LOOKS = 0.5
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
    """Run a task for each number; give what they answered, which JSON must be able to say."""

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
    """Show how many tasks of the jobs inside are done, and give their errors in a sentence."""
    context = getattr(spark, "_sc", None)  # Spark Connect has none, and no tracker
    with plain_errors():
        if context is None:
            yield
            return
        group = f"surerec-{secrets.token_hex(4)}"
        context.setJobGroup(group, description)
        over = threading.Event()
        with progress(description, total=1.0) as advance:
            watcher = threading.Thread(
                target=_watch, args=(context.statusTracker(), group, advance, over), daemon=True
            )
            watcher.start()
            try:
                yield
            except KeyboardInterrupt:
                context.cancelJobGroup(group)
                raise
            finally:
                over.set()
                watcher.join()
                context.setLocalProperty("spark.jobGroup.id", None)
                context.setLocalProperty("spark.job.description", None)


def _watch(
    tracker: Any, group: str, advance: Callable[[float], None], over: threading.Event
) -> None:
    shown = 0.0
    while not over.wait(_SECONDS_BETWEEN_LOOKS):
        jobs = [tracker.getJobInfo(job) for job in tracker.getJobIdsForGroup(group)]
        numbers = {number for job in jobs if job for number in job.stageIds}
        stages = [info for number in numbers if (info := tracker.getStageInfo(number))]
        total = sum(info.numTasks for info in stages)
        done = sum(info.numCompletedTasks for info in stages) / total if total else 0.0
        if done > shown:
            advance(done - shown)
            shown = done


@contextmanager
def settings(spark: SparkSession, **values: object) -> Iterator[None]:
    """Set what Spark's SQL is to do for a while; ``__`` stands for a dot."""
    names = {f"spark.sql.{key.replace('__', '.')}": str(value) for key, value in values.items()}
    before: Mapping[str, str | None] = {name: spark.conf.get(name, None) for name in names}
    for name, value in names.items():
        spark.conf.set(name, value)
    try:
        yield
    finally:
        for name, old in before.items():
            if old is None:
                spark.conf.unset(name)
            else:
                spark.conf.set(name, old)
