"""Every kind of recommender gives on Spark the rows that it gives in memory."""

import polars as pl
import pytest

import surerec as sr
from surerec.recommenders import make_recommender, save_all
from surerec.spark import Counting, fit_spark, recommend_spark

pytestmark = pytest.mark.spark

NAMES = ("precedence-mining", "crs-max", "population-cm12", "population-learned", "icrs-als")


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """One folder with all of them, whose rows are partly held and partly counted when asked for."""
    films = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=6_000, ties=0.2, seed=12)
    counts = sr.count_precedence(films, strategy="bounded", memory=20_000)
    place = tmp_path_factory.mktemp("films") / "model"
    save_all(place, {name: make_recommender(name).fit(counts) for name in NAMES})
    return place


def test_an_output_that_cannot_be_made_is_refused(spark, folder, tmp_path):
    (tmp_path / "file").touch()
    with pytest.raises(sr.InputError, match=r"cannot be written \(Not a directory\)"):
        recommend_spark(spark, folder, tmp_path / "file" / "picks")


def test_titles_are_those_of_a_fit_in_memory(spark, tmp_path):
    films = sr.datasets.synthetic(n_users=40, n_items=20, n_rows=300, seed=1)
    rows = films.to_frame()
    titles = {item: f"Film {item}" for item in films.items.ids[:15]} | {10**9: "Unknown"}
    rows.write_parquet(tmp_path / "films.parquet")
    frame = spark.read.parquet(str(tmp_path / "films.parquet"))
    found = fit_spark(
        frame, tmp_path / "m", {}, counting=Counting(ties="strict"), titles=titles
    ).interactions
    assert {key: found.title(found.items.code(key)) for key in found.items.ids} == {
        key: titles.get(key, str(key)) for key in found.items.ids
    }
    with pytest.raises(sr.InputError, match="title is 'x', a column of titles="):
        fit_spark(frame, tmp_path / "m2", {}, counting=Counting(ties="strict"), title="x")


@pytest.mark.parametrize("name", NAMES)
def test_the_rows_are_those_of_recommend_many(spark, folder, tmp_path, name):
    model = sr.load(folder, name)
    wanted = {"significance": 0.2} if "confidence" in model.model_.features else {}
    users = model.statistics_.interactions.users.ids.gather(range(0, 300, 7)).to_list()[::-1]
    expected = model.recommend_many(users, k=9, **wanted)
    place = tmp_path / "picks"
    n_rows = recommend_spark(spark, folder, place, users, recommender=name, k=9, **wanted)
    found = pl.concat(pl.read_parquet(path) for path in sorted(place.glob("*.parquet")))
    assert n_rows == len(expected) > 50
    assert found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))
    assert [path.name for path in tmp_path.iterdir()] == ["picks"]
    about = spark.read.parquet(str(place)).schema["covered"].metadata
    guarantee = str(model.guarantee_to_all(model.options(k=9, **wanted)))
    assert about == {"surerec.recommender": name, "surerec.guarantee": guarantee}


def test_the_rows_of_groups_are_those_of_recommend_groups(spark, tmp_path):
    films = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=6_000, seed=12)
    place = tmp_path / "model"
    model = sr.PopulationConformal("CM12").fit(films).calibrate_groups((2, 3))
    model.save(place)
    users = films.users.ids.to_list()
    groups = {f"g{n}": users[3 * n : 3 * n + 2 + n % 2] for n in range(40)}
    n_rows = recommend_spark(spark, place, tmp_path / "picks", groups=groups, confidence=0.8, k=5)
    found = pl.concat(
        pl.read_parquet(path) for path in sorted((tmp_path / "picks").glob("*.parquet"))
    )
    expected = model.recommend_groups(groups, confidence=0.8, k=5)
    assert n_rows == len(expected)
    assert found.equals(expected.with_columns(pl.selectors.integer().cast(pl.Int64)))
    about = spark.read.parquet(str(tmp_path / "picks")).schema["covered"].metadata
    said = model.guarantee_to_groups(groups, model.options(confidence=0.8, k=5))
    assert about["surerec.guarantee"] == str(said)
    with pytest.raises(sr.InputError, match="is not calibrated for groups of 4"):
        recommend_spark(spark, place, tmp_path / "more", groups={"a": users[:4]})
    with pytest.raises(sr.InputError, match="users= or groups=, not both"):
        recommend_spark(spark, place, tmp_path / "more", users, groups=groups)


def test_segments_are_those_of_a_fit_in_memory(spark, tmp_path):
    films = sr.datasets.synthetic(n_users=200, n_items=40, n_rows=4_000, seed=3)
    films.to_frame().write_parquet(tmp_path / "films.parquet")
    frame = spark.read.parquet(str(tmp_path / "films.parquet"))
    segments = {user: "even" if user % 2 else "odd" for user in films.users.ids}
    made = {"by-parity": sr.PopulationConformal("CM12", groups="parity")}
    counting = Counting(ties="strict")
    fit_spark(frame, tmp_path / "m", made, counting=counting, user_groups=segments)
    counts = sr.count_precedence(films, ties="strict")
    here = sr.PopulationConformal("CM12", groups="parity").fit(counts, user_groups=segments)
    there = sr.load(tmp_path / "m")
    for user in films.users.ids[:5]:
        assert set(there.recommend(user).items) == set(here.recommend(user).items)
