"""One Spark session for all tests; they are skipped without pyspark or Java."""

import os
from pathlib import Path

import pytest

import surerec
from surerec.errors import InputError
from surerec.spark import require_spark, spark_session


@pytest.fixture(scope="session")
def spark_here():
    """Skip tests with a reason if Spark cannot run."""
    try:
        require_spark()
    except InputError as reason:
        pytest.skip(str(reason))


@pytest.fixture(scope="session")
def spark(spark_here, tmp_path_factory):  # noqa: ARG001
    # Workers must import this surerec.
    source = str(Path(surerec.__file__).parents[1])
    os.environ["PYTHONPATH"] = os.pathsep.join([source, os.environ.get("PYTHONPATH", "")])
    session = spark_session(
        os.environ.get("SUREREC_TEST_MASTER", "local[2,3]"),
        settings={
            "spark.driver.memory": "1g",
            # Java spends less on compiling what runs for a second.
            "spark.driver.extraJavaOptions": "-XX:TieredStopAtLevel=1",
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.ui.enabled": "false",
            "spark.local.dir": str(tmp_path_factory.mktemp("spark")),
            "spark.sql.shuffle.partitions": "2",
        },
    )
    session.sparkContext.setLogLevel("ERROR")
    yield session
    session.stop()
