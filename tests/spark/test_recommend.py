"""Spark gives the rows and the numbers of the run in memory."""

from dataclasses import replace

import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.experiments import DataSource, StudySettings, reproduce
from surerec.spark import SparkEngine, recommend_spark
from surerec.testing import CHECKS
from tests.contracts.test_recommenders import SUBJECTS, WRAPPED

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


def same_rows(folder, expected):
    found = pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet")))
    return found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))


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


@pytest.fixture(scope="module")
def study(tmp_path_factory):
    """A study of 25 users, and its local run."""
    at = tmp_path_factory.mktemp("study")
    data = sr.datasets.synthetic(n_users=60, n_items=50, n_rows=1_500, random_state=6)
    data.to_frame().write_csv(at / "small.csv")
    source = DataSource.parse(str(at / "small.csv"))
    settings = StudySettings((source,), n_users=25, timed_users=0)
    return at / "small.csv", settings, reproduce(settings, at / "out", report=False)


@pytest.mark.usefixtures("spark")
def test_the_study_gives_the_numbers_of_the_local_run(cli, study, tmp_path, monkeypatch):
    # Figures are drawn from the tables, wherever those were made, and take long.
    monkeypatch.setattr("surerec.experiments._run.write_report", lambda *_: None)
    monkeypatch.chdir(tmp_path)  # executors work elsewhere, and must write where this means
    given = ("--datasets", study[0], "--n-users", 25, "--timed-users", 0)
    done = cli("reproduce", *given, "--output", "out", "--engine", "spark")
    assert done.code == 0, done.err
    for table in ("metrics", "validity"):
        found = pl.read_parquet(tmp_path / "out" / f"{table}.parquet")
        assert found.equals(getattr(study[2], table))
    parts = tmp_path / "out" / "parts" / "small"
    assert {path.suffix for path in parts.iterdir()} == {".parquet"}, "the statistics are gone"


def test_a_folder_that_executors_cannot_find_is_refused(spark, study, tmp_path, monkeypatch):
    monkeypatch.setattr("surerec.spark._recommend.save_model", lambda *_: None)  # elsewhere
    with pytest.raises(InputError, match=r"An executor cannot find .*\.statistics-"):
        reproduce(study[1], tmp_path / "out", engine=SparkEngine(spark), report=False)
