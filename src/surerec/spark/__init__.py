"""Fit, recommend and evaluate on Apache Spark.

Needs the extra ``surerec[spark]`` and Java 17. Executors need surerec too, and a path that they
share with the driver, for the model folder.
"""

from surerec.spark._fit import fit_spark
from surerec.spark._recommend import recommend_spark
from surerec.spark._rows import Counting
from surerec.spark._session import read_frame, require_spark, spark_session

__all__ = [
    "Counting",
    "fit_spark",
    "read_frame",
    "recommend_spark",
    "require_spark",
    "spark_session",
]
