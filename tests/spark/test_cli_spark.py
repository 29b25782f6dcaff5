"""The commands on Spark."""

import subprocess
import sys

import polars as pl
import pytest

import surerec as sr

pytestmark = pytest.mark.spark


@pytest.fixture
def data(tmp_path):
    frame = sr.datasets.synthetic(80, 30, 1_200, ties=0.3, random_state=4).to_frame()
    frame.with_columns(row=pl.int_range(len(frame))).write_parquet(tmp_path / "log.parquet")
    return tmp_path / "log.parquet"


def same_rows(folder, expected):
    found = pl.concat(pl.read_parquet(path) for path in sorted(folder.glob("*.parquet")))
    return found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))


@pytest.mark.usefixtures("spark")
def test_fit_and_recommend_to_all(cli, data, tmp_path):
    model, picks = tmp_path / "the model", tmp_path / "my picks"
    fitted = cli(
        "fit", data, model, "--engine", "spark", "--sequence", "row", "--recommender", "icrs3"
    )
    assert fitted.code == 0, fitted.err
    assert "of 80 users and 30 items on Spark" in fitted.err
    users = tmp_path / "users.txt"
    users.write_text("7\n3\n")
    options = ("--users", users, "--engine", "spark", "--confidence", "0.7")
    assert cli("recommend", model, "--output", picks, *options).code == 0
    assert same_rows(picks, sr.load(model).recommend_many([7, 3], confidence=0.7))
    assert sr.load(model).statistics_.interactions.n_rows == pl.read_parquet(data).height
    cli("recommend", model, "--output", picks, *options).assert_refused("already exists")


@pytest.mark.usefixtures("spark")
def test_order_without_a_sequence_is_refused(cli, data, tmp_path):
    result = cli("fit", data, tmp_path / "model", "--engine", "spark")
    result.assert_refused("needs a sequence column")


def test_nothing_outside_the_extra_imports_pyspark():
    code = """
import pkgutil, importlib, sys, surerec
for module in pkgutil.walk_packages(surerec.__path__, "surerec."):
    if not module.name.startswith("surerec.spark") and not module.name.endswith("__main__"):
        try:
            importlib.import_module(module.name)
        except ModuleNotFoundError as error:
            assert not error.name.startswith(("surerec", "pyspark")), error
found = [name for name in sys.modules if name.split(".")[0] in ("pyspark", "py4j")]
assert not found, found
assert "surerec.cli._fit" in sys.modules
"""
    subprocess.run([sys.executable, "-W", "ignore", "-c", code], check=True)  # noqa: S603
