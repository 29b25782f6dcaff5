"""Where nothing is said, a promise that holds leads, and every answer says whose it is."""

import json
import logging
import re

import polars as pl
import pytest

import surerec as sr
from surerec.cli import _show
from surerec.recommenders import load_all, make_recommender


@pytest.fixture
def shop(tmp_path, monkeypatch):
    """Write a log of so many people with so many items each."""

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


def test_fit_saves_what_holds_first_and_the_paper_beside_it(cli, shop):
    at = shop(40, 10)
    done = cli("fit", "shop.csv", "model")
    assert done.code == 0
    assert list(load_all(at / "model")) == ["population-cm12", "icrs12"]
    assert (
        "population-cm12  keeps 90% of items new to the user that they will consume, and answers"
        in done.err
    )
    said = (
        "icrs12           keeps 90% of items new to the user that they will consume, if their taste"
    )
    assert f"{said} stands still" in done.err
    assert "population-learned" not in done.err  # nobody trains on forty people
    answer = json.loads(
        cli("recommend", "model", "--user", "c7", "--confidence", "0.8", "--format", "json").out
    )
    assert answer["recommender"] == "population-cm12"
    assert "by population-cm12" in cli("recommend", "model", "--user", "c7").out


def test_fit_says_where_its_time_went(cli, shop):
    shop(40, 10)
    err = cli("fit", "shop.csv", "model").err
    assert "Saved population-cm12, icrs12 in model." in err
    assert re.search(r"^Fitted in [\d.]+ s(: [\w ,.]+)?\.$", err, re.MULTILINE)
    assert "Calibration: " not in err


def test_verbose_prints_each_stage(cli, shop, monkeypatch):
    shop(40, 10)
    monkeypatch.setattr(logging.root, "handlers", [])  # pytest adds some
    assert "\nCalibration: " in cli("--verbose", "fit", "shop.csv", "model").err
    assert "\nScoring calibration users: 40 of 40 users" in (
        cli("-vv", "fit", "shop.csv", "other").err
    )


def test_the_tip_names_an_extra_only_where_it_is_not_installed(cli, shop, monkeypatch):
    shop(500, 10)
    installed: list[object] = [None]
    monkeypatch.setattr(_show, "find_spec", lambda _: installed[-1])
    assert "pip install 'surerec[learn]'" in cli("fit", "shop.csv", "model").err
    installed.append("somewhere")
    err = cli("fit", "shop.csv", "other").err
    assert "population-learned" in err
    assert "pip install" not in err


def test_every_step_says_the_next_one_as_it_is_typed(cli, shop):
    shop(40, 10)
    done = cli("describe", "shop.csv", "--min-profile-length", "3", "--skip-bad")
    next_one = "surerec fit shop.csv FOLDER --min-profile-length 3 --skip-bad"
    assert done.err == f"Next: {next_one}  makes a model of it in FOLDER\n"
    done = cli("describe", "shop.csv", "--ties", "strict")
    assert done.err.startswith("Next: surerec fit shop.csv FOLDER --ties strict  ")
    done = cli("fit", "shop.csv", "my shop")
    said = [line[6:] for line in done.err.splitlines()[-3:]]
    assert said[0].startswith("surerec recommend 'my shop' --user c0  ")
    assert said[1].startswith("surerec audit 'my shop'  ")
    assert said[2].startswith("surerec serve 'my shop'  ")
    done = cli("recommend", "my shop", "--user", "c0")
    assert done.err.startswith("Next: surerec explain 'my shop' --user c0 --item ")
    typed = done.err.split("  ")[0].split()[2:]
    assert cli("explain", "my shop", *typed[3:]).code == 0
    done = cli("recommend", "my shop", "--user", "c0", "--history", "3,12,7", "--at", "9000")
    assert " --history 3,12,7 --at 9000 " in done.err


@pytest.mark.parametrize(
    ("words", "said"),
    [
        (("describe", "shpo.csv"), "shpo.csv: no such file; did you mean shop.csv?"),
        (("describe", "shop"), "shop: no such file; did you mean shop.csv?"),
        (("recommend", "modle", "--user", "c7"), "There is no folder modle; did you mean model?"),
    ],
)
def test_a_slip_of_the_fingers_is_answered_with_what_is_there(cli, shop, words, said):
    (shop(12, 8) / "model").mkdir()
    done = cli(*words)
    assert done.code == 2
    assert said in done.err


def test_help_begins_with_the_first_steps(cli):
    said = cli("--help").out
    panels = ["First steps", "More from a model", "Looking deeper", "In production"]
    assert sorted(panels, key=said.index) == panels
    first = said[said.index(panels[0]) : said.index(panels[1])]
    steps = ["demo", "describe", "fit", "recommend", "explain", "audit", "serve"]
    assert [
        name for name in re.findall(r"^\W+ (\S+)  ", first, re.MULTILINE) if name in steps
    ] == steps


def test_the_learned_measure_is_suggested_where_people_are_many(cli, shop):
    shop(600, 9)
    assert "--recommender population-learned" in cli("fit", "shop.csv", "model").err


def test_a_small_shop_is_audited_as_far_as_it_goes(cli, shop):
    shop(15, 12)
    done = cli("audit", "shop.csv")
    assert done.code == 0
    said = " ".join(done.out.split())
    assert "15 users took 10 items or more, an audit needs 20, and 5 are lacking" in said
    assert "15 users took" in said.split("lacking", 1)[1]
    assert "Not tested: User-level miss rate, of items new to the user, can be given up to" in said


def test_settings_over_users_need_no_name_any_more(cli, shop):
    at = shop(40, 10)
    assert cli("fit", "shop.csv", "model", "--horizon", "2").code == 0
    assert load_all(at / "model")["population-cm12"].horizon == 2


@pytest.mark.parametrize(
    ("n_users", "n_items", "says"),
    [
        (40, 4, "no user has 5 known items and a future; the longest profile has 4"),
        (6, 10, "needs at least 9 calibration users, with 5 known items and a future; here are 6"),
    ],
)
def test_small_shops_get_the_paper_alone_and_the_reason(cli, shop, n_users, n_items, says):
    at = shop(n_users, n_items)
    done = cli("fit", "shop.csv", "model")
    assert done.code == 0
    assert list(load_all(at / "model")) == ["icrs12"]
    assert "Without population-cm12:" in done.err
    assert says in " ".join(done.err.split())


def test_what_is_asked_for_is_refused_rather_than_left_out(cli, shop):
    shop(40, 4)
    done = cli("fit", "shop.csv", "model", "--recommender", "population-cm12")
    assert done.code == 2
    assert "no user has 5 known items" in done.err


def test_an_old_folder_keeps_its_order(shop):
    at = shop(40, 10)
    counts = sr.count_precedence(sr.read_interactions(at / "shop.csv"))
    sr.PopulationConformal("CM12").fit(counts).save(at / "old")
    sr.InductiveConformal("CM12").fit(counts).save(at / "old")
    assert sr.load(at / "old").name_ == "icrs12"


@pytest.mark.parametrize(
    ("name", "words"),
    [
        ("population-cm3", "keeps 80% of items new to the user that they will consume"),
        ("hit-cm3", "has at least one hit among items new to the user, for 80% of users"),
        ("precision-cm3", "shows few items new to the user, of which a stated share is consumed"),
        (
            "icrs3",
            (
                "keeps 80% of items new to the user that they will consume, "
                "if their taste stands still"
            ),
        ),
        (
            "crs-max",
            (
                "keeps 80% of items new to the user that they will consume: "
                "the older method, not proven"
            ),
        ),
        ("precedence-mining", "only ranks, and promises nothing"),
    ],
)
def test_recommenders_say_what_they_promise_in_a_few_words(name, words):
    films = sr.datasets.synthetic(n_users=60, n_items=30, n_rows=900, seed=1)
    assert make_recommender(name).fit(films).headline(0.8) == words


def test_help_lists_them_all(cli):
    said = " ".join(cli("fit", "--help").out.split())
    for name in ("population-cm12", "hit-cm12", "precision-cm12", "icrs1 …", "crs-med", "learned"):
        assert name in said
