"""Groups as a person asks for them on the command line."""

import json

import numpy as np
import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    folder = tmp_path_factory.mktemp("party")
    taken = sr.datasets.synthetic(n_users=200, n_items=90, n_rows=4_000, seed=3)
    counts = sr.count_precedence(taken)
    sr.InductiveConformal("CM12").fit(counts).save(folder / "model", "icrs12")
    sr.PopulationConformal("CM12").fit(counts).save(folder / "model", "over-users")
    lengths = np.diff(taken.offsets)
    users = [taken.users[int(u)] for u in np.flatnonzero((lengths > 9) & (lengths < 30))][:6]
    rows = [(user, "ab"[place % 2]) for place, user in enumerate(users)]
    frame = pl.DataFrame(rows, schema=["user_id", "group"], orient="row")
    frame.write_csv(folder / "groups.csv")
    return folder


@pytest.fixture
def run(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return cli


@pytest.fixture(scope="module")
def model(folder):
    return sr.load(folder / "model", "over-users")


@pytest.fixture(scope="module")
def users(folder):
    return [str(user) for user in pl.read_csv(folder / "groups.csv")["user_id"]]


ASKED = ("--recommender", "over-users", "--confidence", "0.8")


def test_several_users_are_a_group(run, model, users):
    done = run("recommend", "model", "--user", users[0], "--user", users[1], *ASKED)
    assert done.code == 0
    assert "Of items new to every member that any member takes next" in done.out
    picks = model.recommend(group=users[:2], confidence=0.8)
    assert f"least served is {picks.least_served}" in done.out
    told = json.loads(
        run("recommend", "model", "--user", users[0], "--user", users[1], *ASKED, "--format",
            "json", "--together", "all").out
    )  # fmt: skip
    all_of = model.recommend(group=users[:2], confidence=0.8, together="all")
    assert told == all_of.to_dict()
    assert [each["satisfaction"] for each in told["members"]] == list(all_of.satisfaction)


def test_histories_are_members_with_together(run, model, users):
    done = run("recommend", "model", "--user", users[0], "--history", "1,2,3,4,5", "--history",
               "6,7,8,9,10", "--together", "worst", *ASKED, "--format", "json")  # fmt: skip
    told = json.loads(done.out)
    assert [each["member"] for each in told["members"]] == [users[0], "member 2", "member 3"]
    group = [users[0], [1, 2, 3, 4, 5], [6, 7, 8, 9, 10]]
    picks = model.recommend(group=group, confidence=0.8, together="worst")
    assert [row["item_id"] for row in told["items"]] == picks.items


def test_a_file_of_groups(run, model):
    done = run("recommend", "model", "--group-file", "groups.csv", "--k", "3", *ASKED)
    assert done.code == 0
    expected = model.recommend_groups("groups.csv", confidence=0.8, k=3)
    assert pl.read_csv(done.out.encode())["item_id"].to_list() == expected["item_id"].to_list()
    assert "Answered 2 groups" in done.err
    both = run("recommend", "model", "--group-file", "groups.csv", "--user", "1")
    assert both.code == 2
    assert "--group-file has the users" in both.err


def test_explaining_to_a_group(run, model, users):
    item = str(model.recommend(group=users[:2], confidence=0.8).items[0])
    asked = ("explain", "model", "--user", users[0], "--user", users[1], "--item", item)
    assert "for the group" in run(*asked, "--recommender", "over-users").out
    told = json.loads(run(*asked, "--recommender", "over-users", "--format", "json").out)
    assert told == model.explain_group(users[:2], item=item).to_dict(8)
    refused = run(*asked, "--recommender", "over-users", "--format", "csv")
    assert refused.code == 2


def test_merged_p_values(run, users):
    done = run("recommend", "model", "--user", users[0], "--user", users[1], "--recommender",
               "icrs12", "--together", "bonferroni", "--confidence", "0.6")  # fmt: skip
    assert done.code == 0
    assert "p-value" in done.out


def test_calibrating_on_groups_is_saved(run, folder, tmp_path):
    sr.load(folder / "model", "over-users").save(tmp_path / "other")
    done = run("calibrate-groups", str(tmp_path / "other"), "--size", "2", "--formed", "similar",
               "--aggregation", "least-misery")  # fmt: skip
    assert done.code == 0
    assert "groups of 2 formed of similar users" in done.err
    back = sr.load(tmp_path / "other")
    assert back.group_sizes_ == (2,)
    given = run("calibrate-groups", str(tmp_path / "other"), "--group-file", "groups.csv")
    assert "2 groups such as those given, of up to 3" in given.err
    wrong = run("calibrate-groups", "model", "--recommender", "icrs12")
    assert wrong.code == 2
    assert "not calibrated over users" in wrong.err


def test_a_group_of_one(run, users):
    done = run("recommend", "model", "--user", users[0], "--together", "any", *ASKED)
    assert done.code == 2
    assert "A group of one is a person" in done.err


def test_files_of_groups_say_who_is_covered_and_what_is_guaranteed(run, model, folder, tmp_path):
    path = tmp_path / "picks.parquet"
    asked = ("recommend", "model", *ASKED, "--group-file")
    done = run(*asked, "groups.csv", "--format", "parquet", "--output", path)
    assert done.code == 0, done.err
    assert pl.read_parquet(path)["covered"].all()
    about = pl.read_parquet_metadata(path)
    guarantee = about["surerec.guarantee"]
    assert about["surerec.recommender"] == "over-users"
    assert guarantee == str(model.guarantee_to_groups("groups.csv", model.options(confidence=0.8)))
    assert guarantee.startswith("Of items new to every member that any member takes next")
    assert "on average over groups of 3 formed at random" in guarantee
    assert "The guarantee covers 2 of these 2; the column covered says which." in done.err
    assert guarantee in done.err
    # Of whom nothing is known, nothing is guaranteed; sizes have guarantees of their own.
    shortest = int(np.argmin(np.diff(model.statistics_.interactions.offsets)))
    ids = pl.read_csv(folder / "groups.csv")["user_id"].to_list()
    groups = {"a": ids[:2], "b": [*ids[2:4], model.statistics_.interactions.users[shortest]]}
    frame = model.recommend_groups(groups, confidence=0.8, k=3)
    assert dict(frame.select("group", "covered").iter_rows()) == {"a": True, "b": False}
    said = model.guarantee_to_groups(groups, model.options(confidence=0.8, k=3))
    assert (said.holds, said.full.holds) == (False, True)
    assert said.covers == "groups of 2 formed at random and groups of 3 formed at random"
    assert "over groups of 3 formed at random" in str(said)
    json_file = run(*asked, "groups.csv", "--format", "json").out
    assert json.loads(json_file)["guarantee"]["sentence"] == guarantee
