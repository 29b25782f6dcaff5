"""Times of a history, and the moment of a question, on the command line."""

import json

import numpy as np
import polars as pl
import pytest

import surerec as sr


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=260, n_items=60, n_rows=6_000, drift=1.0, seed=8)


@pytest.fixture(scope="module")
def folder(films, tmp_path_factory):
    folder = tmp_path_factory.mktemp("times")
    model = sr.PopulationConformal("learned").fit(films)
    model.calibrate_groups([2]).save(folder / "model")
    rows = [(who, item) for who in ("ann", "bob") for item in films.items.ids[:8]]
    people = pl.DataFrame(rows, schema=["user_id", "item_id"], orient="row")
    people.write_csv(folder / "people.csv")
    when = pl.Series("timestamp", [iso(films, 0.2), iso(films, 0.9)]).gather(
        (people["user_id"] == "bob").cast(pl.Int64)
    )
    people.with_columns(when).write_csv(folder / "timed.csv")
    return folder


@pytest.fixture
def run(cli, folder, monkeypatch):
    monkeypatch.chdir(folder)
    return cli


@pytest.fixture(scope="module")
def model(folder):
    return sr.load(folder / "model")


@pytest.fixture(scope="module")
def history(films):
    return films.items.ids[:8].to_list()


def iso(films, quantile):
    return str(np.datetime64(int(np.quantile(films.times, quantile)), "us"))


def test_times_and_a_moment_are_those_of_python(run, films, model, history):
    early, ids = iso(films, 0.2), ",".join(map(str, history))
    asked = ("recommend", "model", "--history", ids, "--format", "json")
    for options, given in (
        ((), {}),
        (("--at", early), {"at": early}),
        (("--times", ",".join([early] * 8)), {"times": [early] * 8}),
        (tuple(word for _ in range(8) for word in ("--times", early)), {"at": early}),
    ):
        answer = json.loads(run(*asked, *options).out)
        expected = model.recommend(history=history, confidence=0.9, **given)
        assert [row["score"] for row in answer["items"]] == pytest.approx(
            expected.to_frame()["score"].to_list()
        )
        assert answer["guarantee"] == expected.guarantee.to_dict()


def test_times_sort_a_history(run, model, history):
    turned = ",".join(map(str, history[::-1]))
    asked = ("recommend", "model", "--history", turned, "--format", "json")
    expected = model.recommend(history=history, confidence=0.9).items
    for options, is_sorted in (((), False), (("--times", "8,7,6,5,4,3,2,1"), True)):
        answer = json.loads(run(*asked, *options).out)
        assert ([row["item_id"] for row in answer["items"]] == expected) is is_sorted


def test_reasons_and_short_lists_take_times(run, films, model, history):
    early, ids = iso(films, 0.2), ",".join(map(str, history))
    item = films.items[40]
    why = run("explain", "model", "--history", ids, "--item", item, "--at", early,
              "--format", "json")  # fmt: skip
    expected = model.explain(history=history, item=item, at=early)
    assert json.loads(why.out)["score"] == pytest.approx(expected.score)
    told = run("recommend", "model", "--history", ids, "--times", ",".join([early] * 8),
               "--k", "10", "--format", "json")  # fmt: skip
    expected = model.recommend(history=history, at=early, k=10)
    assert json.loads(told.out)["hit_probability"] == pytest.approx(expected.hit_probability)


def test_every_history_of_a_group_has_its_times(run, films, model, history):
    early, late = iso(films, 0.2), iso(films, 0.9)
    ids, fewer = ",".join(map(str, history)), ",".join(map(str, history[:5]))
    asked = ("recommend", "model", "--history", ids, "--history", fewer, "--together", "any",
             "--format", "json")  # fmt: skip
    times = ("--times", ",".join([early] * 8), "--times", ",".join([late] * 5))
    answer = json.loads(run(*asked, *times).out)
    group = [[(item, early) for item in history], [(item, late) for item in history[:5]]]
    assert [row["item_id"] for row in answer["items"]] == (
        model.recommend(group=group, confidence=0.9).items
    )
    done = run(*asked, *times[:2])
    assert done.code == 2
    assert "There are 2 --history and 1 --times" in done.err
    done = run(*asked, "--times", early, "--times", late)
    assert done.code == 2
    assert "has 1 values for a history of 8 items" in done.err


def test_a_file_of_histories_has_a_column_of_times_or_a_moment(run, films, folder, model, history):
    early, late = iso(films, 0.2), iso(films, 0.9)
    many = ("recommend", "model", "--k", "5", "--output", "picks.csv", "--histories")
    for options, whens in (
        (("people.csv",), (None, None)),
        (("timed.csv",), (early, late)),
        (("people.csv", "--at", late), (late, late)),
    ):
        done = run(*many, *options)
        assert (done.code, "No times" in done.err) == (0, False)
        found = pl.read_csv(folder / "picks.csv")
        expected = [
            item
            for when in whens
            for item in model.recommend(history=history, at=when, confidence=0.9, k=5).items
        ]
        assert found["item_id"].to_list() == expected


@pytest.mark.parametrize(
    ("options", "said"),
    [
        (("recommend", "model", "--history", "1,2", "--times", "5"), "times has 1 values and"),
        (("recommend", "model", "--history", "1,2", "--times", "5,soon"), "is 'soon'; it must be"),
        (("recommend", "model", "--history", "1", "--at", "soon"), "at is 'soon'; it must be"),
        (("recommend", "model", "--user", "1", "--at", "5"), "--at on the command line"),
        (("recommend", "model", "--group-file", "x.csv", "--user", "5"), "only request options"),
        (("recommend", "model", "--all", "--output", "x.csv", "--at", "5"), "about --histories"),
    ],
)
def test_wrong_times_are_refused_in_a_sentence(run, options, said):
    done = run(*options)
    assert done.code == 2
    assert said in " ".join(done.err.split())
