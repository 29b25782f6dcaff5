"""What cannot be wrapped, calibrated or asked is refused in one sentence."""

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.storage import read_card


def flat(histories):
    return np.zeros((len(histories), 3))


@pytest.mark.parametrize(
    ("model", "settings", "said"),
    [
        (5, {}, r"cannot be wrapped: give a model of implicit .*score\(history\), a function"),
        (dict, {}, "the class dict cannot be wrapped"),
        (flat, {"items": [1, 2, 3], "covers": "all"}, "covers is 'all'; choose one of fit, newco"),
        (flat, {}, "Which items flat scores is not known: give items="),
        (flat, {"items": [1, 2, 2]}, "items= names 2 twice"),
        (flat, {"items": [1.5, None]}, "items= must list ids"),
        (flat, {"items": ["x", "y", "z"]}, "80 of the 80 items of the past are not in the cata"),
    ],
)
def test_what_cannot_be_wrapped_or_calibrated(halves, model, settings, said):
    with pytest.raises(sr.InputError, match=said):
        sr.wrap(model, **settings).calibrate(*halves)


def test_a_function_cannot_be_fitted(halves):
    with pytest.raises(sr.InputError, match=r"flat comes fitted, .*call calibrate\(past, future\)"):
        sr.wrap(flat, items=[1, 2, 3]).fit(halves[0])


def some(halves, change=lambda scores: scores, n=None):
    ids = halves[0].items.ids.to_list()

    def score(histories):
        rows = np.tile(np.arange(len(ids), dtype=float), (len(histories), 1))
        return change(rows)[:, :n]

    return sr.wrap(score, items=ids)


def test_scores_that_are_not_numbers(halves):
    def spoil(rows):
        rows[:, 3] = np.nan
        return rows

    with pytest.raises(sr.InputError, match="scores that are not numbers; nothing can be"):
        some(halves, spoil).calibrate(*halves)


def test_scores_that_are_all_alike(halves):
    with pytest.raises(sr.InputError, match="score gives all items the same score for everybody"):
        some(halves, np.zeros_like).calibrate(*halves)


def test_scores_of_the_wrong_shape(halves):
    with pytest.raises(sr.InputError, match=r"gave scores of shape \(\d+, 79\): a function of"):
        some(halves, n=79).calibrate(*halves)

    class One:
        def score(self, history):
            return [1.0, 2.0, len(history)]

    with pytest.raises(sr.InputError, match=r"One gave scores of shape \(3,\): score\(history\)"):
        sr.wrap(One(), items=halves[0].items.ids).calibrate(*halves)


def test_a_future_of_other_people(halves):
    past, future = halves
    others = future.to_frame().with_columns(pl.col("user_id") + 10_000)
    with pytest.raises(sr.InputError, match=r"Not one of the \d+ users of the future is in the pa"):
        some(halves).calibrate(past, others)


def test_some_of_the_future_are_not_in_the_past(halves):
    past, future = halves
    moved = pl.when(pl.col("user_id") < 20).then(pl.col("user_id") + 10_000)
    newcomers = future.to_frame().with_columns(moved.otherwise("user_id").alias("user_id"))
    with pytest.warns(sr.LeftOutWarning, match=r"\d+ of the \d+ users of the future are not in th"):
        sure = some(halves).calibrate(past, newcomers)
    assert len(sure.calibration_) > 100


def test_a_future_of_people_of_whom_nothing_is_known(halves):
    past, future = halves
    first = past.keeping(np.arange(past.n_rows) < 4)
    with pytest.raises(sr.InputError, match="Nobody of whom 5 items are known in the past took"):
        some(halves).calibrate(first, future)


def test_a_user_and_a_history_at_once(halves):
    sure = some(halves).calibrate(*halves)
    with pytest.raises(sr.InputError, match="Give user= or history=, not both"):
        sure.recommend(halves[0].users[1], history=[1, 2], confidence=0.8)


def test_folders_without_counts_say_so(halves, tmp_path, cli):
    sure = some(halves).calibrate(*halves)
    sure.save(tmp_path / "model")
    card = read_card(tmp_path / "model")
    assert card["format_version"] == 6
    assert card["settings"]["rows"] == "none"
    with pytest.raises(sr.InputError, match="was not counted here, as a wrapped model needs no"):
        sr.InductiveConformal("CM12").fit(sure.statistics_).recommend(1, confidence=0.8)
    asked = cli("recommend", tmp_path / "model", "--user", "1", "--confidence", "0.8")
    assert asked.code == 2
    assert "was saved without its scorer (score)" in asked.err


implicit = pytest.importorskip("implicit", reason="wrapping implicit needs it")


@pytest.fixture(scope="module")
def als(matrix):
    model = implicit.cpu.als.AlternatingLeastSquares(4, random_state=1, iterations=2)
    model.fit(matrix[0], show_progress=False)
    return model


@pytest.mark.filterwarnings("ignore::Warning:implicit")
def test_implicit_that_is_not_fitted_or_does_not_match(als, halves, matrix):
    _, items, users = matrix
    with pytest.raises(sr.NotFittedError, match="This AlternatingLeastSquares is not fitted: fit"):
        sr.wrap(implicit.cpu.als.AlternatingLeastSquares(4)).calibrate(*halves)
    with pytest.raises(sr.InputError, match="was fitted on 80 items, and items= names 79"):
        sr.wrap(als, items=items[:-1]).calibrate(*halves)
    with pytest.raises(sr.InputError, match="was fitted on 400 users, and users= names 401"):
        sr.wrap(als, items=items, users=[*users, 0]).calibrate(*halves)
    with pytest.raises(sr.InputError, match="items of the past are not in the catalogue"):
        sr.wrap(als, items=[-7, *items[1:]], users=users).calibrate(*halves)
    with pytest.raises(sr.InputError, match="users of the past were not in the fit of Alternating"):
        sr.wrap(als, items=items, users=[-7, *users[1:]]).calibrate(*halves)
    some_of_them = sr.wrap(als, items=items, users=[-7, *users[1:]], covers="fit")
    assert some_of_them.calibrate(*halves).covers_ == "fit"
    others = [-each for each in users]
    with pytest.raises(sr.InputError, match="Nobody with a future was in the fit of Alternating"):
        sr.wrap(als, items=items, users=others, covers="fit").calibrate(*halves)
