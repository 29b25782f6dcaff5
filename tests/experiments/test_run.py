"""The study end to end on small synthetic data: numbers, resuming, errors."""

import json
from dataclasses import replace
from functools import partial

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.evaluation import candidates_of, split_user
from surerec.experiments import ALGORITHMS, DataSource, StudySettings, reproduce
from surerec.experiments._evaluating import judge
from surerec.experiments._study import EXTRA
from surerec.recommenders import make_recommender

run = partial(reproduce, report=False)  # figures take seconds


@pytest.fixture(scope="module")
def ratings(tmp_path_factory):
    path = tmp_path_factory.mktemp("data") / "small.csv"
    sr.datasets.synthetic(
        n_users=60, n_items=50, n_rows=1_500, random_state=6
    ).to_frame().write_csv(path)
    return path


@pytest.fixture
def settings(ratings):
    return StudySettings((DataSource.parse(str(ratings)),), n_users=25, timed_users=0)


def test_the_shared_pass_equals_each_algorithm_alone(ratings):
    data = sr.read_interactions(ratings)
    statistics = sr.count_precedence(data)
    for user in range(0, 60, 7):
        split = split_user(data, user)
        known = data.items.ids.gather(split.known).to_list()
        candidates = candidates_of(statistics, split)
        judged = dict(judge(statistics, split, candidates))
        assert set(judged) == {*ALGORITHMS, EXTRA}
        for name in ALGORITHMS[1:]:
            model = make_recommender(name.lower()).fit(statistics)
            alone = model.p_values(data.users[user], history=known)["p_value"].to_numpy()
            np.testing.assert_array_equal(judged[name].counts / judged[name].levels, alone)
        plain = make_recommender("precedence-mining").fit(statistics)
        ranked = plain.recommend(data.users[user], history=known).to_frame()
        alone = dict(zip(ranked["item_id"], ranked["score"], strict=True))
        keys = [alone[data.items[int(code)]] for code in candidates]
        np.testing.assert_array_equal(judged["Precedence Mining"].key, keys)


def test_the_tables_have_every_algorithm_metric_and_level(settings, tmp_path):
    results = run(settings, tmp_path / "out")
    assert results.metrics.height == 2 * 21 * 7
    assert results.validity.height == 2 * 19 * 19
    assert pl.read_csv(tmp_path / "out" / "metrics.csv").height == results.metrics.height


def test_a_resumed_run_has_the_same_numbers(settings, tmp_path, monkeypatch):
    whole = run(settings, tmp_path / "whole")
    calls = iter(range(100))

    def interrupted(*args, **kwargs):
        if next(calls) == 12:
            raise KeyboardInterrupt
        return judge(*args, **kwargs)

    with monkeypatch.context() as patch:
        patch.setattr("surerec.experiments._evaluating.judge", interrupted)
        patch.setenv("SUREREC_THREADS", "1")
        with pytest.raises(KeyboardInterrupt):
            run(settings, tmp_path / "part")
    assert list((tmp_path / "part" / "parts").rglob("*.parquet"))
    resumed = run(settings, tmp_path / "part", resume=True)
    for table in ("metrics", "validity"):
        assert getattr(whole, table).equals(getattr(resumed, table))


def test_the_folder_of_another_run_is_protected(settings, tmp_path):
    output = tmp_path / "out"
    run(settings, output)
    with pytest.raises(sr.InputError, match=r"contains the results of another run\. .*--resume"):
        run(settings, output)
    other = StudySettings(settings.datasets, n_users=9, timed_users=0)
    with pytest.raises(sr.InputError, match="started with other settings"):
        run(other, output, resume=True)
    assert json.loads((output / "settings.json").read_text())["settings"]["n_users"] == 25
    run(other, output, overwrite=True)
    assert json.loads((output / "settings.json").read_text())["settings"]["n_users"] == 9
    foreign = tmp_path / "foreign"
    foreign.mkdir()
    (foreign / "thesis.tex").write_text("years of work")
    with pytest.raises(sr.InputError, match="contains files that are not a run"):
        run(settings, foreign, overwrite=True)
    assert (foreign / "thesis.tex").exists()
    with pytest.raises(sr.InputError, match=r"cannot be written \(Not a directory\)"):
        run(settings, foreign / "thesis.tex" / "out")


@pytest.mark.parametrize(
    ("given", "message"),
    [
        ({"datasets": ()}, "Name at least one"),
        ({"datasets": (DataSource("a", "x"), DataSource("a", "y"))}, "'a' is named twice"),
        ({"datasets": (DataSource("ml-100"),)}, "Did you mean ml-100k"),
        ({"datasets": (DataSource("ml-25m", "nowhere"),)}, "nowhere: no such file"),
    ],
)
def test_invalid_settings_raise_before_any_work(settings, tmp_path, given, message):
    with pytest.raises(sr.InputError, match=message):
        run(replace(settings, **given), tmp_path / "out")
    assert not (tmp_path / "out").exists()
