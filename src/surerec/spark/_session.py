"""A Spark session for the command line, or a sentence on why there is none."""

from __future__ import annotations

import os
import re
import shutil
import socket
import sys
import warnings
from importlib.util import find_spec
from pathlib import Path
from typing import TYPE_CHECKING, Any

from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Mapping

    from pyspark.sql import SparkSession


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
    """Give the running Spark session, or start one.

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
