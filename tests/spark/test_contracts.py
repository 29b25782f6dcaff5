"""Recommenders keep their contract on Spark, or are refused there in one sentence."""

from dataclasses import replace

import pytest

from surerec.testing import CHECKS
from tests.contracts.test_recommenders import SUBJECTS, WRAPPED

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    [
        "inductive, CM12",
        "inductive, learned",
        "miss rate, als",
        "miss rate, own function",
        "hit, own scorer",
        "CRS-med",
        *WRAPPED,
    ],
)
def test_it_runs_on_spark_or_is_refused(spark, name, tmp_path):
    CHECKS["on Spark"](replace(SUBJECTS[name], spark=spark), tmp_path)
