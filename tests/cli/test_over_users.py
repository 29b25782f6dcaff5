"""Promises over users, as a person meets them on the command line."""

import json
import re

import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """A ratings file up to a date, the whole of it, and a model of the earlier one."""
    folder = tmp_path_factory.mktemp("users")
    taken = sr.datasets.synthetic(n_users=200, n_items=50, n_rows=4_000, days=400, seed=3)
    frame = taken.to_frame()
    frame.write_csv(folder / "now.csv")
    frame.filter(pl.col("datetime") < frame["datetime"].quantile(0.7)).write_csv(
        folder / "then.csv"
    )
    counts = sr.count_precedence(sr.read_interactions(folder / "then.csv"))
    sr.InductiveConformal("CM3").fit(counts).save(folder / "model")
    sr.PopulationConformal("CM8", promise="hit", horizon=5).fit(counts).save(folder / "model")
    sr.PopulationConformal("CM12").fit(counts).save(folder / "model")
    return folder


@pytest.fixture
def run(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return cli


def test_fit_takes_the_settings_of_what_is_calibrated_over_users(run, folder):
    done = run(
        "fit", "then.csv", "fresh", "--recommender", "population-cm4", "--recommender", "hit-cm4",
        "--cut", "rank", "--horizon", "3", "--groups", "2",
    )  # fmt: skip
    assert (done.code, done.out) == (0, "")
    model = sr.load(folder / "fresh", "hit-cm4")
    assert (model.cut, model.horizon, model.groups, model.promise) == ("rank", 3, 2, "hit")


def test_settings_that_nothing_takes_are_refused(run):
    done = run("fit", "then.csv", "none", "--recommender", "icrs12", "--horizon", "5")
    assert done.code == 2
    assert "--horizon is for what is calibrated over users" in done.err


def test_a_set_says_its_promise_and_shows_no_p_values(run):
    done = run("recommend", "model", "--user", "9", "--confidence", "0.7", "--show", "3")
    assert done.code == 0
    assert "at most 30% is left out on average over users" in done.out
    assert "p-value" not in done.out
    assert "in above" in done.out
    answer = json.loads(run("recommend", "model", "--user", "9", "--format", "json").out)
    assert not any("p_value" in row for row in answer["items"])


def test_an_explanation_says_on_how_many_users_it_was_calibrated(run):
    best = json.loads(run("recommend", "model", "--user", "9", "--format", "json").out)
    item = str(best["items"][0]["item_id"])
    done = run("explain", "model", "--user", "9", "--item", item)
    assert "users: in the set at every confidence above" in done.out


def test_a_short_list_has_its_probability_of_a_hit(run):
    asked = ("recommend", "model", "--user", "9", "--k", "10")
    answer = json.loads(run(*asked, "--recommender", "hit-cm8", "--format", "json").out)
    low, high = answer["hit_interval"]
    assert 0 <= low <= answer["hit_probability"] <= high <= 1
    assert answer["hit_probabilities"][0] == answer["hit_probability"]
    assert len(answer["items"]) == 10
    assert answer["confidence"] is None
    assert "among the next 5 items" in answer["about_hit_probability"]
    shown = run(*asked).out
    assert "10 of " in shown
    assert "that at least 1 of these 10 items new to the user is consumed" in shown
    other = json.loads(run(*asked, "--recommender", "icrs3", "--format", "json").out)
    assert other["hit_probability"] is None
    assert "has no probabilities of hits" in other["about_hit_probability"]


def test_recalibrating_writes_a_renewed_model(run, folder):
    done = run("recalibrate", "now.csv", "model", "later")
    assert done.code == 0
    assert "Recalibrated population-cm12, hit-cm8" in done.err
    old, new = (sr.load(folder / name) for name in ("model", "later"))
    assert new.statistics_.interactions.n_rows > old.statistics_.interactions.n_rows
    assert new.calibration_.period[0] > old.statistics_.interactions.times.max()
    assert run("recalibrate", "now.csv", "model", "kept", "--no-refit").code == 0
    kept = sr.load(folder / "kept")
    assert kept.statistics_.interactions.n_rows == old.statistics_.interactions.n_rows
    again = run("recalibrate", "then.csv", "model", "again")
    assert again.code == 2
    assert "Nothing has happened since" in again.err


def test_groups_of_peoples_own_and_people_by_their_histories(run, folder):
    then = sr.read_interactions(folder / "then.csv")
    rows = [f"{user},{'DE' if code % 2 else 'AT'}" for code, user in enumerate(then.users.ids)]
    (folder / "users.csv").write_text("\n".join(["user,country", *rows]))
    fit = ("fit", "then.csv", "apart", "--recommender", "population-cm12")
    done = run(*fit, "--groups", "country,2", "--groups-file", "users.csv")
    assert done.code == 0
    model = sr.load(folder / "apart")
    assert list(model.groups) == ["country", 2]
    taken = [str(item) for item in then.items.ids[:6]]
    done = run("recommend", "apart", "--history", ",".join(taken), "--segment", "DE")
    assert "country 'DE'" in done.out
    people = [f"{who},{item},{land}" for who, land in (("x", "DE"), ("y", "AT")) for item in taken]
    lines = ["who,item,country", *people, "z,no such item,DE"]
    (folder / "people.csv").write_text("\n".join(lines))
    many = ("recommend", "apart", "--histories", "people.csv", "--output", "picks.csv")
    done = run(*many, "--user-column", "who", "--k", "3")
    assert done.code == 0
    assert "1 person is left out" in done.err
    assert "took the items of 1 row: ignored" in done.err
    picks = pl.read_csv(folder / "picks.csv")
    alone = model.recommend(history=taken, segment="DE", k=3)
    assert picks.filter(pl.col("user_id") == "x")["item_id"].cast(pl.String).to_list() == [
        str(item) for item in alone.items
    ]


def test_files_of_users_without_a_guarantee_have_empty_probabilities(run, folder):
    (folder / "short.csv").write_text("user,item\nx,1\nx,2\ny,3\n")
    asked = ("recommend", "model", "--histories", "short.csv", "--k", "4", "--hits")
    for name in ("short.parquet", "picks-short.csv"):
        assert run(*asked, "--output", name).code == 0
    picks = pl.read_parquet(folder / "short.parquet")
    assert len(picks) == 8
    assert not len(picks.filter(pl.col("probability") > 0.3))
    assert "nan" not in (folder / "picks-short.csv").read_text().lower()


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (
            ("fit", "then.csv", "n", "--recommender", "hit-cm4", "--groups", "country"),
            "go together",
        ),
        (
            ("fit", "then.csv", "n", "--recommender", "hit-cm4", "--groups-file", "users.csv"),
            "go together",
        ),
        (
            ("recommend", "model", "--all", "--output", "x.csv", "--user-column", "who"),
            "give that too",
        ),
        (("recommend", "model", "--all", "--output", "x.csv", "--leave-out"), "about --histories"),
        (
            ("recommend", "model", "--output", "x.csv", "--histories", "none.csv"),
            "no such file",
        ),
        (
            (
                "recommend",
                "model",
                "--all",
                "--output",
                "x.csv",
                "--histories",
                "a",
                "--users",
                "b",
            ),
            "do not go together",
        ),
    ],
)
def test_groups_and_histories_that_do_not_fit(run, options, said):
    done = run(*options)
    assert done.code == 2
    assert said in done.err
    assert "Traceback" not in done.err


@pytest.fixture(scope="module")
def precise(folder):
    """A folder of its own, as a list is added to it."""
    counts = sr.count_precedence(sr.read_interactions(folder / "then.csv"))
    sr.InductiveConformal("CM3").fit(counts).save(folder / "precise")
    sr.PopulationConformal("CM12", promise="precision").fit(counts).save(folder / "precise")
    items = counts.interactions.items.ids.to_list()[::2]
    (folder / "ids.txt").write_text("".join(f"{item}\n" for item in items))
    return items


@pytest.mark.usefixtures("precise")
def test_precision_and_probabilities_on_the_command_line(run):
    done = run("recommend", "precise", "--user", "14", "--precision", "0.2")
    assert done.code == 0
    assert "at precision 0.2 with confidence 0.9" in done.out
    assert "Of what is shown, at least 20%" in done.out
    assert "measured, not proven" in done.out
    assert re.search(r"Probability .*\n.* \d+\.\d% \[\d+–\d+\] ", done.out)
    assert "in above" not in done.out
    done = run("recommend", "precise", "--user", "14", "--precision", "0.2", "--format", "json")
    answer = json.loads(done.out)
    assert answer["precision"] == 0.2
    assert all(row["entry_confidence"] is None for row in answer["items"])
    done = run("recommend", "precise", "--user", "14")
    assert done.code == 2
    assert "--precision 0.5" in done.err


@pytest.mark.parametrize("unknown", [3, 40])
def test_unknown_ids_of_a_file_are_skipped_and_named(run, folder, precise, unknown):
    new = "".join(f"new-{n}\n" for n in range(unknown))
    (folder / "more.txt").write_text((folder / "ids.txt").read_text() + new)
    users = sr.read_interactions(folder / "then.csv").users.ids[:3].to_list()
    (folder / "users.txt").write_text("".join(f"{user}\n" for user in users) + new)
    skip = [] if unknown < len(precise) else ["--unknown", "skip"]
    said = f"more.txt: {unknown} of {len(precise) + unknown} items are unknown and were skipped: "
    for asked in (
        ("allow", "precise", "more", "more.txt"),
        ("recommend", "precise", "--user", "9", "--precision", "0.1", "--items", "more.txt"),
        ("recommend", "precise", "--users", "users.txt", "--items", "more.txt", "--precision",
         "0.1", "--output", "picks.csv"),
    ):  # fmt: skip
        done = run(*asked, *skip)
        assert done.code == 0, done.err
        assert said + "'new-0', 'new-1'" in done.err
        refused = run(*asked)
        assert (refused.code, ".txt: 40 of " in refused.err) == ((2, True) if skip else (0, False))
    assert f"users.txt: {unknown} of {3 + unknown} users are unknown and were" in done.err
    assert "of 3 people have recommendations" in done.err


def test_a_list_is_allowed_and_chosen_from(run, folder, precise):
    done = run("allow", "precise", "tonight", "ids.txt")
    assert (done.code, done.out) == (0, "")
    assert f"Calibrated the list tonight for precision-cm12 ({len(precise)} items)" in done.err
    listed = run(
        "recommend", "precise", "--user", "9", "--precision", "0.1", "--item-list", "tonight",
        "--format", "json",
    )  # fmt: skip
    answer = json.loads(listed.out)
    assert {row["item_id"] for row in answer["items"]} <= set(precise)
    assert "items of the list" in answer["guarantee"]["sentence"]
    only = run(
        "recommend", "model", "--user", "9", "--items", "ids.txt", "--min-probability", "0.01",
        "--format", "json",
    )  # fmt: skip
    answer = json.loads(only.out)
    assert {row["item_id"] for row in answer["items"]} <= set(precise)
    assert answer["guarantee"]["reason"].startswith("only the given items")
    done = run(
        "recommend", "precise", "--all", "--precision", "0.1", "--item-list", "tonight", "--output",
        "all.parquet",
    )  # fmt: skip
    assert done.code == 0
    assert set(pl.read_parquet(folder / "all.parquet")["item_id"]) <= set(precise)
    assert "no such file" in run("allow", "precise", "tonight", "none.txt").err.lower()
