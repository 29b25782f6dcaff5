"""Recommend and explain on the command line: for one user, a group, or many users."""

import json
import re

import numpy as np
import polars as pl
import pytest

import surerec as sr

MANY = ("recommend", "model", "--all")
GROUP = ("recommend", "model", "--confidence", "0.8")


def test_the_table_shows_sizes_and_guarantee(run):
    done = run("recommend", "icrs3", "--user", "9", "--confidence", "0.7", "--show", "3")
    assert "items at confidence 0.7" in done.out
    assert "Guarantee: An item new to the user that they consume next is left out" in done.out
    assert "Thing" in done.out
    done = run("recommend", "model", "--user", "9", "--confidence", "0.7", "--show", "3")
    assert "Recall of at least 70% on average over users" in done.out
    assert "p-value" not in done.out
    assert "Enters above" in done.out


@pytest.mark.parametrize(
    ("words", "options"),
    [
        (("--user", "7", "--significance", "0.2"), {"user": 7, "significance": 0.2}),
        (("--user", "7", "--k", "10"), {"user": 7, "k": 10}),
        (("--history", "1,2,3,4"), {"history": [1, 2, 3, 4]}),
        (("--history", "1", "--history", "2,3"), {"history": [1, 2, 3]}),
        (
            ("--history", "4,3,2", "--times", "2020-03-03,2020-03-02,2020-03-01"),
            {"history": [2, 3, 4], "at": "2020-03-03"},
        ),
        (("--history", "1,2", "--at", "2020-03-03"), {"history": [1, 2], "at": "2020-03-03"}),
        (("--user", "7", "--exclude", "1", "--exclude", "2"), {"user": 7, "exclude": [1, 2]}),
        (("--user", "7", "--min-probability", "0.1"), {"user": 7, "min_probability": 0.1}),
    ],
)
@pytest.mark.parametrize("name", ["model", "hit", "icrs3"])
def test_json_is_what_python_answers(answer, shop, name, words, options):
    if name == "icrs3" and "min_probability" in options:
        return
    found = answer("recommend", name, *words)
    expected = sr.load(shop.at / name).recommend(**options).to_dict()
    assert found == json.loads(json.dumps(expected))


def test_short_lists_rankings_and_unseen_items(run, answer):
    shown = run("recommend", "model", "--user", "9", "--k", "10").out
    assert "10 of " in shown
    assert "Hits: at least 1 with probability" in shown
    found = answer("recommend", "mining", "--user", "7", "--k", "3")["items"]
    assert (len(found), "p_value" in found[0]) == (3, False)
    done = run("recommend", "icrs3", "--history", "1,2,900", "--confidence", "0.4")
    assert "Ignored items that are not in the model: 900." in done.err


def test_precision_and_probabilities(run, answer):
    request = ("recommend", "precise", "--user", "14")
    done = run(*request, "--precision", "0.2")
    assert "at precision 0.2 with confidence 0.9" in done.out
    assert "At least 20% of the shown items" in done.out
    assert re.search(r"Probability .*\n.* \d+\.\d% \[\d+–\d+\] ", done.out)
    assert "Enters above" not in done.out
    assert answer(*request, "--precision", "0.2")["precision"] == 0.2
    assert "--precision 0.5" in run(*request).err


def test_explain_prints_counts(run, answer, shop):
    for name, said in (("icrs3", "in the set at every"), ("model", "users: in the set at every")):
        item = answer("recommend", name, "--user", "7")["items"][0]["item_id"]
        done = run("explain", name, "--user", "7", "--item", item)
        assert re.search(rf"later (took|consumed) (Thing )?{item}", done.out)
        assert said in done.out
    why = answer("explain", "model", "--history", "1,2", "--item", item, "--at", "2020-03-03")
    expected = sr.load(shop.at / "model").explain(history=[1, 2], item=item, at="2020-03-03")
    assert why["score"] == pytest.approx(expected.score)


def test_every_answer_names_its_recommender(run, answer):
    request = ("recommend", "all", "--user", "7", "--confidence", "0.7")
    assert "by model" in run(*request).out  # what was saved last
    named = (*request, "--recommender", "icrs3")
    assert answer(*named)["recommender"] == "icrs3"
    assert "Answered by icrs3." in run(*named, "--format", "csv").err
    item = str(answer(*named)["items"][0]["item_id"])
    why = ("explain", "all", "--user", "7", "--item", item, "--recommender", "icrs3")
    assert ", by icrs3" in run(*why).out
    assert answer(*why)["recommender"] == "icrs3"


# Many users.


def test_all_users_are_streamed_to_a_file_that_equals_recommend_many(run, shop):
    expected = sr.load(shop.at / "model").recommend_many(confidence=0.7, k=5, hits=True)
    for name, read in (("all.parquet", pl.read_parquet), ("all.csv", pl.read_csv)):
        done = run(*MANY, "--confidence", "0.7", "--k", "5", "--hits", "--output", name)
        assert (done.code, done.out) == (0, "")
        assert read(shop.at / name).equals(expected)
    assert {title is None for title in expected["title"]} == {True, False}
    assert not list(shop.at.glob(".all*"))


def test_many_users_report_coverage_and_guarantee(run, shop):
    (shop.at / "some.txt").write_text("7\n\n9\n")
    run("recommend", "model", "--users", "some.txt", "--output", "some.parquet", "--k", "1")
    assert pl.read_parquet(shop.at / "some.parquet")["user_id"].to_list() == [7, 9]
    done = run("recommend", "icrs3", "--all", "--confidence", "0.7", "--output", "sum.parquet")
    frame, said = pl.read_parquet(shop.at / "sum.parquet"), " ".join(done.err.split())
    n, covered = (x["user_id"].n_unique() for x in (frame, frame.filter("covered")))
    assert "recommendations by icrs3 to sum.parquet" in said
    assert f"{n} of {shop.then.n_users} users have recommendations" in said
    assert 0 < covered < n
    assert f"The guarantee covers {covered} of {n} (column covered)" in said
    about = pl.read_parquet_metadata(shop.at / "sum.parquet")
    assert about["surerec.recommender"] == "icrs3"
    assert f"Guarantee: {about['surerec.guarantee']}" in said
    few = run("recommend", "icrs3", "--all", "--confidence", "0.1", "--k", "2", "--output", "f.csv")
    n = pl.read_csv(shop.at / "f.csv")["user_id"].n_unique()
    said = " ".join(few.err.split())
    assert f"{n} of {shop.then.n_users} users have recommendations." in said
    assert "No guarantee: the set was truncated to 2 items. The full set has:" in said


def test_histories_of_a_file(run, shop):
    items = shop.then.items.ids[:6].to_list()
    rows = [f"{who},{item},2020-0{who}-01" for who in (1, 2) for item in items]
    (shop.at / "visitors.csv").write_text("\n".join(["who,item,day", *rows, "3,900,2020-01-01"]))
    many = ("recommend", "model", "--histories", "visitors.csv", "--user-column", "who")
    model = sr.load(shop.at / "model")
    for words, moments in (
        (("--time-column", "day"), ("2020-01-01", "2020-02-01")),
        (("--time-column", "", "--at", "2020-03-01"), ("2020-03-01",) * 2),
    ):
        done = run(*many, *words, "--k", "3", "--output", "picks.csv")
        assert done.code == 0, done.err
        assert re.search(r"1 (person|user) is left out", done.err)
        assert "Ignored 1 row with items that are not in the model" in done.err
        picks = pl.read_csv(shop.at / "picks.csv")
        for who, at in zip((1, 2), moments, strict=True):
            alone = model.recommend(history=items, at=at, k=3)
            assert picks.filter(user_id=who)["item_id"].to_list() == alone.items


# Lists of items.


@pytest.mark.parametrize("unknown", [3, 40])
def test_unknown_ids_of_a_file_are_skipped_and_named(run, shop, unknown):
    new = "".join(f"new-{n}\n" for n in range(unknown))
    (shop.at / "more.txt").write_text((shop.at / "ids.txt").read_text() + new)
    (shop.at / "users.txt").write_text("".join(f"{user}\n" for user in shop.users[:3]) + new)
    n = len(shop.items)
    skip = [] if unknown < n else ["--unknown", "skip"]
    precise = ("recommend", "precise", "--precision", "0.1", "--items", "more.txt")
    for request in (
        ("item-list", "precise", "more", "more.txt"),
        (*precise, "--users", "users.txt", "--output", "picks.csv"),
    ):
        done = run(*request, *skip)
        assert f"more.txt: {unknown} of {n + unknown} items are unknown and were skip" in done.err
        refused = run(*request)
        assert (refused.code, ".txt: 40 of " in refused.err) == ((2, True) if skip else (0, False))
    assert f"users.txt: {unknown} of {3 + unknown} users are unknown and were" in done.err
    assert "of 3 users have recommendations" in done.err


def test_item_lists_are_calibrated_and_used(run, answer, shop):
    done = run("item-list", "precise", "tonight", "ids.txt")
    said = f"Calibrated the list tonight for precision-cm12 ({len(shop.items)} items)"
    assert said in done.err
    precise = ("recommend", "precise", "--precision", "0.1", "--item-list", "tonight")
    found = answer(*precise, "--user", "9")
    assert {row["item_id"] for row in found["items"]} <= set(shop.items)
    assert "items of the list" in found["guarantee"]["sentence"]
    found = answer("recommend", "model", "--user", "9", "--items", "ids.txt")
    assert {row["item_id"] for row in found["items"]} <= set(shop.items)
    assert found["guarantee"]["reason"].startswith("only the given items")
    assert "no such file" in run("item-list", "precise", "tonight", "none.txt").err.lower()


# Groups.


def test_several_users_are_a_group(run, answer, shop):
    model, pair = sr.load(shop.at / "model"), shop.users[:2]
    words = ("--user", pair[0], "--user", pair[1])
    done = run(*GROUP, *words)
    assert "items new to every member, if any, that any member" in done.out
    picks = model.recommend(group=pair, confidence=0.8)
    assert f"least served: {picks.least_served}" in done.out
    expected = model.recommend(group=pair, confidence=0.8, group_guarantee="all")
    assert answer(*GROUP, *words, "--group-guarantee", "all") == expected.to_dict()
    merged = run(
        "recommend", "icrs3", *words, "--group-guarantee", "bonferroni", "--confidence", "0.6"
    )
    assert "p-value" in merged.out
    item = str(picks.items[0])
    why = ("explain", "model", *words, "--item", item)
    assert "for the group" in run(*why).out
    assert answer(*why) == model.explain_group(pair, item=item).to_dict(8)
    assert run(*why, "--format", "csv").code == 2


def test_histories_are_members_with_their_times(run, answer, shop):
    model, day = sr.load(shop.at / "model"), "2020-03-01"
    request = (
        *GROUP,
        "--history",
        "1,2,3,4,5",
        "--history",
        "6,7,8",
        "--group-guarantee",
        "worst",
    )
    found = answer(*request, "--user", shop.users[0])
    assert [each["member"] for each in found["members"]] == [shop.users[0], "member 2", "member 3"]
    times = ("--times", ",".join([day] * 5), "--times", ",".join([day] * 3))
    group = [[(item, day) for item in (1, 2, 3, 4, 5)], [(item, day) for item in (6, 7, 8)]]
    expected = model.recommend(group=group, confidence=0.8, group_guarantee="worst").items
    assert [row["item_id"] for row in answer(*request, *times)["items"]] == expected
    for wrong, says in (
        (times[:2], "--history has 5, 3 items, and --times has 5 values"),
        (("--times", day, "--times", day), "--history has 5, 3 items, and --times has 1, 1 values"),
    ):
        run(*request, *wrong).assert_refused(says)


def test_files_of_groups_report_coverage_and_guarantee(run, answer, shop):
    model, request = sr.load(shop.at / "model"), (*GROUP, "--groups", "groups.csv")
    done = run(*request, "--output", "groups.parquet")
    assert done.code == 0, done.err
    frame = pl.read_parquet(shop.at / "groups.parquet")
    assert frame.equals(model.recommend_groups(shop.at / "groups.csv", confidence=0.8))
    guarantee = pl.read_parquet_metadata(shop.at / "groups.parquet")["surerec.guarantee"]
    said = model.model_.guarantee_to_groups(
        shop.at / "groups.csv", model.model_.options(confidence=0.8)
    )
    assert guarantee == str(said)
    assert "Recommended to 2 groups" in done.err
    assert "The guarantee covers 2 of 2 (column covered)." in done.err
    assert guarantee in done.err
    assert answer(*request)["guarantee"]["sentence"] == guarantee
    assert (
        pl.read_csv(run(*request).out.encode())["item_id"].to_list() == frame["item_id"].to_list()
    )


def test_sizes_of_groups_have_guarantees_of_their_own(shop):
    model, ids = sr.load(shop.at / "model"), [int(user) for user in shop.users]
    shortest = int(np.argmin(np.diff(shop.then.offsets)))
    groups = {"a": ids[:2], "b": [*ids[2:4], shop.then.users[shortest]]}
    frame = model.recommend_groups(groups, confidence=0.8, k=3)
    assert dict(frame.select("group", "covered").iter_rows()) == {"a": True, "b": False}
    said = model.model_.guarantee_to_groups(groups, model.model_.options(confidence=0.8, k=3))
    assert (said.holds, said.full.holds) == (False, True)
    assert said.covers == "random groups of 2 and random groups of 3"


def test_calibrating_on_groups_is_saved(run, shop, tmp_path):
    sr.load(shop.at / "model").save(tmp_path / "other")
    done = run("groups", tmp_path / "other", "--size", "2", "--formed", "similar",
               "--aggregation", "least-misery")  # fmt: skip
    assert "similar groups of 2" in done.err
    assert sr.load(tmp_path / "other").model_.groups.sizes == (2,)
    given = run("groups", tmp_path / "other", "--groups", "groups.csv")
    assert "2 groups like the given ones, of up to 3" in given.err


# What is refused.

ONE, TO_FILE = ("recommend", "model", "--user", "7"), ("recommend", "model", "--output", "x.csv")


@pytest.mark.parametrize(
    ("words", "says"),
    [
        ((*ONE, "--confidence", "90"), "did you mean 0.9?"),
        (("recommend", "model"), "--user"),
        (("recommend", "model", "--user", "nobody"), "There is no user 'nobody'"),
        ((*ONE, "--recommender", "icrs9"), "Use one of recall-cm12"),
        (("recommend", ".", "--user", "7"), "holds no surerec model"),
        ((*MANY, "--output", "picks.txt"), "is not .parquet or .csv"),
        ((*MANY, "--output", "no/such/folder.csv"), "cannot be written"),
        (MANY, "add --output"),
        ((*ONE, "--hits"), "apply to many users"),
        ((*TO_FILE, "--users", "none.txt"), "none.txt"),
        ((*TO_FILE, "--all", "--user-column", "who"), "--user-column applies to --histories only"),
        ((*TO_FILE, "--all", "--at", "5"), "--at applies to --histories only"),
        ((*TO_FILE, "--all", "--user", "7"), "cannot be combined"),
        ((*TO_FILE, "--histories", "none.csv"), "no such file"),
        (("recommend", "model", "--groups", "groups.csv", "--user", "1"), "cannot be combined"),
        (("recommend", "model", "--history", "1,2", "--times", "5,soon"), "is 'soon'; it must be"),
        ((*ONE, "--at", "5"), "Error: --at needs a history: a user of the data has times"),
        ((*ONE, "--group-guarantee", "any"), "group has one member. Pass at least two"),
        (("groups", "icrs3"), "has no user-level calibration"),
    ],
)
def test_user_errors_are_one_message_and_exit_code_2(run, words, says):
    run(*words).assert_refused(says)
