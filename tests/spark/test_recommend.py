"""Spark gives the rows and the numbers of the run in memory."""

from dataclasses import replace

import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.spark import recommend_spark
from surerec.testing import CHECKS
from tests.contracts.test_recommenders import SUBJECTS, WRAPPED
from tests.spark.test_cli_spark import same_rows

pytestmark = pytest.mark.spark


@pytest.mark.parametrize(
    "name",
    [
        "inductive, CM12",
        "inductive, learned",
        "miss rate, als",
        "hit, own scorer",
        "CRS-med",
        *WRAPPED,
    ],
)
def test_it_runs_on_spark_or_is_refused(spark, name, tmp_path):
    CHECKS["on Spark"](replace(SUBJECTS[name], spark=spark), tmp_path)


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=80, n_rows=6_000, ties=0.2, random_state=12)


def test_rows_of_all_users_and_of_groups_are_those_of_memory(spark, films, tmp_path):
    # Rows of counts are partly held and partly counted when requested.
    counts = sr.count_precedence(films, strategy="bounded", memory=20_000)
    model = sr.PopulationConformal("CM12").fit(counts).calibrate_groups((2, 3))
    model.save(tmp_path / "model")
    users = films.users.ids.to_list()
    groups = {f"g{n}": users[3 * n : 3 * n + 2 + n % 2] for n in range(40)}
    request = {"confidence": 0.8, "k": 5}
    options = model.model_.options(**request)
    for name, given, expected, guarantee in (
        ("all", {}, model.recommend_many(**request), model.model_.guarantee_to_all(options)),
        (
            "groups",
            {"groups": groups},
            model.recommend_groups(groups, **request),
            model.model_.guarantee_to_groups(groups, options),
        ),
    ):
        place = tmp_path / "picks" / name
        n_rows = recommend_spark(spark, tmp_path / "model", place, **given, **request)
        assert n_rows == len(expected) > 50
        assert same_rows(place, expected)
        about = spark.read.parquet(str(place)).schema["covered"].metadata
        assert about == {
            "surerec.recommender": model.name_, "surerec.guarantee": str(guarantee),
        }  # fmt: skip
    assert sorted(path.name for path in (tmp_path / "picks").iterdir()) == ["all", "groups"]
    (tmp_path / "file").touch()
    for place, given, says in (
        ("file/picks", {}, r"cannot be written \(Not a directory\)"),
        ("more", {"groups": {"a": users[:4]}}, "is not calibrated for groups of 4"),
        ("more", {"groups": groups, "users": users}, "users= or groups=, not both"),
    ):
        with pytest.raises(InputError, match=says):
            recommend_spark(spark, tmp_path / "model", tmp_path / place, **given)
