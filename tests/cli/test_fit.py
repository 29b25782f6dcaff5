"""Fitting and recalibrating on the command line."""

import logging
import re

import polars as pl
import pytest

import surerec as sr
from surerec.recommenders import load_all, make_recommender


@pytest.fixture
def log(tmp_path, monkeypatch):
    """Write a log of so many users with so many items each."""

    def write(n_users, n_items):
        rows = [
            (f"c{who}", (7 * who + 3 * place * place) % 31, 100 * place)
            for who in range(n_users)
            for place in range(n_items)
        ]
        frame = pl.DataFrame(rows, schema=["customer", "sku", "bought_at"], orient="row")
        frame.write_csv(tmp_path / "shop.csv")
        monkeypatch.chdir(tmp_path)
        return tmp_path

    return write


def test_fit_saves_the_user_level_default_first(cli, log):
    at = log(40, 10)
    done = cli("fit", "shop.csv", "model")
    assert (done.code, done.out) == (0, "")
    assert list(load_all(at / "model")) == ["recall-cm12", "icrs12"]
    recall = "contains 90% of the new items a user consumes next, on average"
    item = (
        "contains each new item a user consumes next with probability 90%, if tastes do not drift"
    )
    assert f"  recall-cm12  {recall} (default)\n" in done.err
    assert f"  icrs12       {item}\n" in done.err
    assert re.search(r"^Fitted in [\d.]+ s(: [\w ,.]+)?\.$", done.err, re.MULTILINE)
    assert "by recall-cm12" in cli("recommend", "model", "--user", "c7").out


def test_verbose_prints_each_stage(cli, log, monkeypatch):
    log(40, 10)
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest adds some
    said = cli("-vv", "fit", "shop.csv", "model").err
    assert "\nCalibration: " in said
    assert "\nScoring calibration users: 40 of 40 users" in said


def test_fit_suggests_the_choice_of_a_measure_for_many_users(cli, log):
    log(500, 10)
    err = cli("fit", "shop.csv", "model").err
    assert "--recommender recall-auto" in err
    assert "needs the extras surerec[als,learn]" in " ".join(err.split())


def test_commands_print_the_next_command(cli, log):
    log(40, 10)
    done = cli("describe", "shop.csv", "--min-profile-length", "3", "--skip-bad")
    next_one = "surerec fit shop.csv FOLDER --min-profile-length 3 --skip-bad"
    assert done.err == f"Next: {next_one}  fit a model and save it in FOLDER\n"
    said = [line[6:] for line in cli("fit", "shop.csv", "my shop").err.splitlines()[-3:]]
    for line, command in zip(said, ("recommend", "audit", "serve"), strict=True):
        assert line.startswith(f"surerec {command} 'my shop' ")
    done = cli("recommend", "my shop", "--user", "c0")
    assert done.err.startswith("Next: surerec explain 'my shop' --user c0 --item ")
    assert cli("explain", "my shop", *done.err.split("  ")[0].split()[5:]).code == 0
    done = cli("recommend", "my shop", "--user", "c0", "--history", "3,12,7", "--at", "9000")
    assert " --history 3,12,7 --at 9000 " in done.err


def test_audit_names_the_number_of_missing_users(cli, log):
    log(15, 12)
    done = cli("audit", "shop.csv")
    done.assert_refused(" 20 users with 10 items or more; these data have 15 users. Add")


@pytest.mark.parametrize(
    ("n_users", "n_items", "says"),
    [
        (40, 4, "no user has 5 known items and held-out items; the longest history has 4"),
        (
            6,
            10,
            "needs at least 9 calibration users with 5 known items and later ones",
        ),
    ],
)
def test_fit_on_few_users_skips_the_default_with_a_reason(cli, log, n_users, n_items, says):
    at = log(n_users, n_items)
    done = cli("fit", "shop.csv", "model")
    assert done.code == 0
    assert list(load_all(at / "model")) == ["icrs12"]
    assert "Skipped recall-cm12:" in done.err
    assert says in " ".join(done.err.split())
    request = cli("fit", "shop.csv", "other", "--recommender", "recall-cm12")
    assert request.code == (2 if n_items < 5 else 0)  # refused rather than left out


ITEM = "contains each new item a user consumes next with probability 80%"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("recall-cm3", "contains 80% of the new items a user consumes next, on average"),
        ("hit-cm3", "contains a new item that the user consumes next, for 80% of users"),
        ("precision-cm3", "shows a short list of new items, of which a stated share is consumed"),
        ("icrs3", f"{ITEM}, if tastes do not drift"),
        ("crs-max", f"{ITEM} (older method, not proven)"),
        ("precedence-mining", "ranks items, without a guarantee"),
    ],
)
def test_headlines_of_recommenders(name, words):
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, random_state=1)
    assert make_recommender(name).fit(films).model_.calibration.headline(0.8) == words


def test_fit_sets_parameters_of_user_level_recommenders(run, shop):
    done = run(
        "fit", "then.csv", "fresh", "--recommender", "recall-cm4", "--recommender", "hit-cm4",
        "--threshold", "rank", "--horizon", "3", "--segments", "2",
        "--title-column", "product_name",
    )  # fmt: skip
    assert (done.code, done.out) == (0, "")
    assert re.search(r"Titles +[0-9]+ of 50 items have a title", done.err)
    model = sr.load(shop.at / "fresh", "hit-cm4")
    assert (model.threshold, model.horizon, model.segments, model.guarantee) == (
        "rank",
        3,
        2,
        "hit",
    )
    assert model.model_.titles.equals(sr.load(shop.at / "model").model_.titles)


def test_segments_of_users(run, shop):
    ids = shop.then.users.ids
    rows = [f"{user},{'DE' if code % 2 else 'AT'}" for code, user in enumerate(ids)]
    (shop.at / "users.csv").write_text("\n".join(["user,country", *rows]))
    fit = ("fit", "then.csv", "apart", "--recommender", "recall-cm12")
    assert run(*fit, "--segments", "country,2", "--user-segments", "users.csv").code == 0
    assert list(sr.load(shop.at / "apart").segments) == ["country", 2]
    consumed = ",".join(str(item) for item in shop.then.items.ids[:6])
    assert "country 'DE'" in run("recommend", "apart", "--history", consumed, "--segment", "DE").out


def test_recalibrate_writes_a_new_model(run, shop):
    done = run("recalibrate", "now.csv", "all", "later")
    assert done.code == 0, done.err
    assert "Recalibrated model, hit, precise" in done.err
    old, new = sr.load(shop.at / "model"), sr.load(shop.at / "later", "model")
    rows = [each.statistics_.interactions.n_rows for each in (old, new)]
    assert rows[0] < rows[1]
    assert new.calibration_.period[0] > old.statistics_.interactions.times.max()
    assert run("recalibrate", "now.csv", "model", "kept", "--no-refit").code == 0
    assert sr.load(shop.at / "kept").statistics_.interactions.n_rows == rows[0]


@pytest.mark.parametrize(
    ("words", "says"),
    [
        (("icrs12", "--horizon", "5"), "--horizon applies to user-level recommenders only"),
        (("hit-cm4", "--segments", "country"), "go together"),
        (("icrs18",), "no recommender 'icrs18'"),
        (("icrs12", "--master", "1"), "--master applies to Spark only; add --engine spark."),
        (
            ("icrs12", "--engine", "spark", "--query", "SELECT 1"),
            "spark does not read databases",
        ),
    ],
)
def test_fit_refuses_wrong_options(run, words, says):
    run("fit", "then.csv", "none", "--recommender", *words).assert_refused(says)


def test_measures_lists_all_17_formulas(cli):
    lines = cli("measures").out.splitlines()
    assert sum(line.startswith(("CM", "NCM")) for line in lines) == 17
    assert [line.split()[0] for line in lines[-2:]] == ["learned", "als"]


def test_fit_says_what_each_measure_gave_and_cost(cli, log):
    at = log(60, 12)
    done = cli("fit", "shop.csv", "model", "--recommender", "hit-auto", "--max-seconds", "1e-9")
    assert done.code == 0
    sizes = ", ".join(rf"\d+ at {level}%" for level in (90, 80, 70, 50))
    assert re.search(rf"    CM12: mean set size {sizes}; tried in [\d.]+ s, kept\n", done.err)
    assert "    als: not tried, as max_seconds=1e-09 had passed\n" in done.err
    assert load_all(at / "model")["hit-auto"].measure == "CM12"
