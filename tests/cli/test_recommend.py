"""Fit, recommend and explain as a person does on the command line."""

import json
import re

import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A folder with a ratings file and a model of it with two recommenders."""
    folder = tmp_path_factory.mktemp("shop")
    taken = sr.datasets.synthetic(n_users=80, n_items=40, n_rows=1_200, seed=3)
    taken.to_frame().write_csv(folder / "log.csv")
    counts = sr.count_precedence(sr.read_interactions(folder / "log.csv"))
    sr.PrecedenceMining().fit(counts).save(folder / "model")
    sr.InductiveConformal("CM3").fit(counts).save(folder / "model")
    return folder


@pytest.fixture
def run(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return cli


def test_fit_saves_a_model_and_says_so_on_stderr(run, folder):
    done = run("fit", "log.csv", "fresh", "--recommender", "icrs4", "--recommender", "CRS-max")
    assert (done.code, done.out) == (0, "")
    assert "Saved icrs4, crs-max in fresh." in done.err
    assert repr(sr.load(folder / "fresh", "crs-max")) == "TransductiveConformal()"


def test_the_table_says_the_sizes_and_the_promise(run):
    done = run("recommend", "model", "--user", "9", "--confidence", "0.7", "--show", "3")
    assert done.code == 0
    assert "items at confidence 0.7" in done.out
    assert "Guarantee: An item new to the user that they will consume is left out" in done.out


def test_json_is_json_and_says_what_python_says(run, folder):
    answer = json.loads(
        run("recommend", "model", "--user", "7", "--significance", "0.2", "--format", "json").out
    )
    picks = sr.load(folder / "model", "icrs3").recommend(7, significance=0.2)
    assert answer == picks.to_dict()
    assert [row["item_id"] for row in answer["items"]] == picks.items
    assert answer["confidence"] == 0.8


def test_precedence_mining_answers_without_p_values(run):
    done = run("recommend", "model", "--user", "7", "--recommender", "precedence-mining",
               "--k", "3", "--format", "json")  # fmt: skip
    answer = json.loads(done.out)
    assert len(answer["items"]) == 3
    assert "p_value" not in answer["items"][0]


def test_histories_are_ids_with_commas_or_repeated(run):
    asked = ("recommend", "model", "--confidence", "0.5", "--format", "csv")
    once = run(*asked, "--history", "1,2,3,4")
    again = run(*asked, *(word for item in "1234" for word in ("--history", item)))
    assert once.out == again.out
    assert once.out.startswith("item_id,rank,score,p_value,entry_confidence")


def test_unseen_items_of_a_history_are_named_on_stderr(run):
    done = run("recommend", "model", "--history", "1,2,900", "--confidence", "0.4")
    assert done.code == 0
    assert "Nobody in the data took 900: ignored." in done.err


def test_recommend_all_streams_to_a_file_that_equals_recommend_many(run, folder):
    expected = sr.load(folder / "model").recommend_many(confidence=0.7, k=5)
    for name, read in (("all.parquet", pl.read_parquet), ("all.csv", pl.read_csv)):
        done = run(
            "recommend", "model", "--all", "--confidence", "0.7", "--k", "5", "--output", name
        )
        assert done.code == 0
        assert done.out == ""
        assert read(folder / name).equals(expected)
    assert not list(folder.glob(".all*"))


def test_recommend_all_ends_with_how_many_and_what_holds(run, folder):
    done = run("recommend", "model", "--all", "--confidence", "0.7", "--output", "sum.parquet")
    rows = pl.read_parquet(folder / "sum.parquet").group_by("user_id").len()
    taken = sr.load(folder / "model").statistics_.interactions
    own = {user: len(taken.profile(user)) for user in rows["user_id"]}
    whole = sum(n == taken.n_items - own[user] for user, n in rows.iter_rows())
    said = " ".join(done.err.split())
    assert 0 < whole < 80
    assert f"{len(rows)} of 80 people have recommendations" in said
    assert f"everything qualified for {whole}" in said
    assert "Guarantee: An item new to the user that they will consume is left out" in said
    covered = pl.read_parquet(folder / "sum.parquet").filter("covered")["user_id"].n_unique()
    assert 0 < covered < len(rows)
    assert f"The guarantee covers {covered} of these {len(rows)}; the column covered" in said
    about = pl.read_parquet_metadata(folder / "sum.parquet")
    assert about["surerec.recommender"] == sr.load(folder / "model").name_
    assert f"Guarantee: {about['surerec.guarantee']}" in said
    assert not re.search(r"user \d|this person", said)
    few = run(
        "recommend", "model", "--all", "--confidence", "0.1", "--k", "2", "--output", "few.csv"
    )
    n = pl.read_csv(folder / "few.csv")["user_id"].n_unique()
    said = " ".join(few.err.split())
    assert f"{n} of 80 people have recommendations; nothing qualified for {80 - n}." in said
    assert "No guarantee: the set was truncated to 2 items. The full set has:" in said


def test_recommend_all_for_some_users(run, folder):
    (folder / "some.txt").write_text("7\n\n9\n")
    run("recommend", "model", "--users", "some.txt", "--output", "some.parquet", "--k", "1")
    assert pl.read_parquet(folder / "some.parquet")["user_id"].to_list() == [7, 9]


def test_explain_says_the_counts_in_words(run):
    item = json.loads(run("recommend", "model", "--user", "7", "--format", "json").out)["items"][0]
    done = run("explain", "model", "--user", "7", "--item", item["item_id"])
    assert f"later took {item['item_id']}" in done.out
    assert "in the set at every confidence above" in done.out


def test_all_17_measures_stand_beside_their_formulas(run):
    lines = run("measures").out.splitlines()
    assert sum(line.startswith(("CM", "NCM")) for line in lines) == 17
    assert any(line.startswith("learned ") for line in lines)
    assert any(line.startswith("als ") for line in lines)
    said = json.loads(run("measures", "--format", "json").out)
    assert len(said["measures"]) == 17
    assert [each["name"] for each in said["trained"]] == ["learned", "als"]


@pytest.mark.parametrize(
    ("arguments", "says"),
    [
        (["recommend", "model", "--user", "7", "--confidence", "90"], "did you mean 0.9?"),
        (["recommend", "model", "--user", "7", "--confidence", "0.9", "--significance", "0.1"],
         "not both"),
        (["recommend", "model"], "--user"),
        (["recommend", "model", "--user", "nobody"], "There is no user 'nobody'"),
        (["recommend", "model", "--history", "900"], "Nobody in the data took any item"),
        (["recommend", "model", "--user", "7", "--recommender", "icrs9"], "it has icrs3"),
        (["recommend", "elsewhere", "--user", "7"], "elsewhere"),
        (["recommend", ".", "--user", "7"], "holds no surerec model"),
        (["explain", "model", "--user", "7", "--item", "900"], "There is no item '900'"),
        (["fit", "log.csv", "other", "--recommender", "icrs18"], "no recommender 'icrs18'"),
        (["fit", "log.csv", "model", "--ties", "strict"], "overwrite"),
        (["recommend", "model", "--all", "--output", "picks.txt"], "must end in .parquet or .csv"),
        (["recommend", "model", "--all", "--output", "no/such/folder.csv"], "cannot be written"),
        (["recommend", "model", "--users", "none.txt", "--output", "x.csv"], "none.txt"),
    ],
)  # fmt: skip
def test_a_users_error_is_a_sentence_and_exit_code_2(run, arguments, says):
    done = run(*arguments)
    assert done.code == 2
    assert says in done.err
    assert done.out == ""


def test_what_was_fitted_last_answers_and_every_answer_says_who(run, folder):
    for name in ("icrs12", "icrs4"):
        assert run("fit", "log.csv", "again", "--recommender", name, "--overwrite").code == 0
    asked = ("recommend", "again", "--user", "7", "--confidence", "0.7")
    assert "by icrs4" in run(*asked).out
    assert json.loads(run(*asked, "--format", "json").out)["recommender"] == "icrs4"
    assert "Answered by icrs4." in run(*asked, "--format", "csv").err
    assert sr.load(folder / "again").recommend(7, confidence=0.7).recommender == "icrs4"
    item = str(sr.load(folder / "again").recommend(7, confidence=0.9).items[0])
    why = ("explain", "again", "--user", "7", "--item", item)
    assert ", by icrs4" in run(*why).out
    assert json.loads(run(*why, "--format", "json").out)["recommender"] == "icrs4"
    written = run("recommend", "again", "--all", "--k", "1", "--output", "again.csv")
    assert "recommendations by icrs4 to again.csv" in written.err
    older = sr.load(folder / "again", "icrs12")
    assert older.recommend(7, confidence=0.7).recommender == "icrs12"
