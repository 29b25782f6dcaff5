import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import observe, profile_cases
from surerec.errors import InputError
from surerec.evaluation import losses_at, miss_by_support, new_user_test, risk_curve, split_users


@pytest.fixture(scope="module")
def films():
    return sr.datasets.synthetic(n_users=300, n_items=150, n_rows=4_500, random_state=5)


def test_nothing_of_new_users_is_in_the_fit(films):
    parts = split_users(films, 0.4, random_state=2)
    assert parts.fit.n_users == 120
    assert not set(parts.fit.users.ids) & set(parts.new.users.ids)
    assert set(parts.fit.users.ids) | set(parts.new.users.ids) == set(films.users.ids)
    assert (np.bincount(parts.fit.item_codes, minlength=parts.fit.n_items) > 0).all()
    user = parts.new.users.ids[7]
    assert parts.new.profile(user).equals(films.profile(user).drop("title"))


def fitted(films, random_state=0, **given):
    """Return a model of half of the users, the cases of the others, and their items."""
    parts = split_users(films, 0.5, random_state=(random_state, 0))
    model = sr.PopulationConformal("CM12", random_state=random_state, **given).fit(parts.fit)
    cases, ids = profile_cases(parts.new, 0.4), parts.new.items.ids
    known_to = model.items_.ids.implode()
    users = []
    for case in range(len(cases)):
        known, future = ids.gather(cases.known(case)), ids.gather(cases.future(case))
        users.append((known.filter(known.is_in(known_to)), future))
    return model, cases, users


@pytest.mark.parametrize("threshold", ["rank", "score"])
def test_what_is_observed_is_what_recommend_leaves_out(films, threshold):
    found = new_user_test(
        films, "CM12", threshold=threshold, significances=(0.2,), n_splits=1, random_state=3
    )
    model, _, users = fitted(films, 3, threshold=threshold)
    losses, sizes, hits = [], [], []
    for known, future in users:
        shown = model.recommend(history=known, confidence=0.8).items
        losses.append(1 - future.is_in(list(shown)).mean())
        sizes.append(len(shown))
        hits.append(future.is_in(list(model.recommend(history=known, k=10).items)).sum())
    (row,) = found.splits.to_dicts()
    assert row["n_new"] == len(users)
    assert row["observed"] == pytest.approx(np.mean(losses))
    assert row["size"] == pytest.approx(np.mean(sizes))
    assert row["precision_at_10"] == pytest.approx(np.mean(hits) / 10)


def test_a_precision_is_measured_over_users_who_are_shown_anything(films):
    found = new_user_test(
        films, "CM12", guarantee="precision", significances=(0.6, 0.05), n_splits=1
    )
    model, _, users = fitted(films, guarantee="precision")
    shares = []
    for known, future in users:
        shown = list(model.recommend(history=known, precision=0.4, confidence=0.9).items)
        if shown:
            shares.append(pl.Series(shown).is_in(future.implode()).mean())
    first, second = found.splits.to_dicts()
    assert first["observed"] == pytest.approx(1 - np.mean(shares))
    assert not second["reachable"]
    assert found.table()["holds"].to_list() == [True, None]


def test_the_standard_error_counts_calibration_and_new_users(films):
    found = new_user_test(films, "CM12", threshold="rank", significances=(0.3,), n_splits=1)
    model, cases, _ = fitted(films, threshold="rank")
    curve = model.calibration_.curve("recall")
    outcomes = observe(model.scorer_, model.statistics_, cases)
    losses = [
        losses_at(each, curve.threshold(0.3)) for each in (curve, risk_curve(outcomes, "rank"))
    ]
    by_hand = sum(each.var(ddof=1) / len(each) for each in losses) ** 0.5
    row = found.splits.to_dicts()[0]
    assert row["standard_error"] == pytest.approx(by_hand)
    assert row["calibration"] == pytest.approx(losses[0].mean())
    assert row["lower"] == pytest.approx(row["observed"] - 1.645 * by_hand, abs=1e-4)


def test_the_mean_over_splits_has_their_spread(films):
    found = new_user_test(films, "CM12", significances=(0.3,), n_splits=20, diagnose=False)
    spread = found.splits["observed"].std()
    assert spread == pytest.approx(found.splits["standard_error"].mean(), rel=0.5)
    row = found.table().to_dicts()[0]
    assert row["standard_error"] == pytest.approx(
        found.splits["standard_error"].mean() / 20**0.5, rel=0.1
    )
    assert row["holds"]


def _items(side, others, missed, users):
    columns = {"user": users, "item": range(len(others)), "others": others, "missed": missed}
    return pl.DataFrame(columns).select(pl.lit(side).alias("side"), pl.all())


def test_misses_are_compared_by_the_number_of_other_users():
    calibration = _items("calibration", [0, 0, 1, 40], [False, False, True, False], [0, 1, 1, 2])
    new = _items("new", [0, 0, 1, 2, 40], [True, True, True, False, False], [0, 1, 2, 2, 3])
    rows = miss_by_support(pl.concat([calibration, new])).rows_by_key("other_users", named=True)
    found = {key: row[0] for key, row in rows.items()}
    compared = {key: (row["calibration"], row["new"], row["leak"]) for key, row in found.items()}
    assert compared["0"] == (0.0, 1.0, True)
    assert compared["1"] == (1.0, 1.0, False)
    assert found["2"]["n_calibration"] == 0
    assert found["30 or more"]["share"] == pytest.approx(1 / 5)


def test_a_users_items_are_not_counted_as_independent():
    n = 60
    missed = np.arange(n) % 2 == 0
    errors = []
    for out, users in ((missed, np.arange(n)), (np.repeat(missed[:6], 10), np.arange(n) // 10)):
        sides = [_items(side, [1] * n, out, users) for side in ("calibration", "new")]
        errors.append(miss_by_support(pl.concat(sides))["standard_error"][1])
    assert errors[1] > 2.5 * errors[0]


@pytest.mark.parametrize(
    ("argument", "value"),
    [("n_splits", 0), ("max_users", 5), ("random_state", -1)],
)
def test_arguments_are_checked(films, argument, value):
    with pytest.raises(InputError, match=argument):
        new_user_test(films, "CM12", **{argument: value})
