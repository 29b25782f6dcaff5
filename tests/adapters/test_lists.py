"""Lists of scores from any system: complete, or only the best of each user."""

import re

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.calibration import following_cases
from tests.served import served_cases


@pytest.fixture(scope="module")
def scores(halves):
    """Return item-item scores of all items for all users."""
    past = halves[0]
    consumed = np.zeros((past.n_users, past.n_items))
    owners = np.repeat(np.arange(past.n_users), np.diff(past.offsets))
    consumed[owners, past.item_codes] = 1
    similarity = consumed.T @ consumed
    found = consumed @ (
        similarity / np.sqrt(np.outer(similarity.diagonal(), similarity.diagonal()))
    )
    found[consumed > 0] = -np.inf
    return found


def frame_of(scores, past, k=None):
    """Write scores as a frame, the k best of each user; as other systems do, without the past."""
    order = np.argsort(-scores, axis=1, kind="stable")
    users, places = np.nonzero(np.isfinite(np.take_along_axis(scores, order, axis=1))[:, :k])
    items = order[users, places]
    frame = pl.DataFrame(
        {
            "user_id": past.users.ids.gather(users),
            "item_id": past.items.ids.gather(items),
            "score": scores[users, items],
        }
    )
    return frame.sample(fraction=1, shuffle=True, seed=1)


def missed(sure, past, future, epsilon, users):
    """Return the mean share of held-out items outside the sets."""
    cases = following_cases(past, future, 0.4)
    found = served_cases(sure, cases[np.isin(cases.users, users)], "user", significance=epsilon)
    return np.mean([lost for _, lost in found])


def apart(past, future):
    """Return the future of every other user, and the codes of the others who have one."""
    codes = np.arange(future.n_users)
    rest = future.without_users(codes[codes % 2 == 1])
    others = rest.users.ids.gather(np.flatnonzero(np.diff(rest.offsets)))
    return future.without_users(codes[codes % 2 == 0]), past.users.codes(others)


def test_the_guarantee_holds_for_users_with_complete_lists(halves, scores):
    past, future = halves
    calibrating, others = apart(past, future)
    sure = sr.wrap(frame_of(scores, past)).calibrate(past, calibrating)
    for epsilon in (0.1, 0.3):
        assert missed(sure, past, future, epsilon, others) == pytest.approx(epsilon, abs=0.04)
    said = str(sure.recommend(past.users[3], confidence=0.8).guarantee)
    assert "on average over users who have a list" in said
    assert "exchangeable with the" in said


def test_short_lists_limit_the_confidence(halves, scores):
    past, future = halves
    sure = sr.wrap(frame_of(scores, past, k=10)).calibrate(past, future)
    assert 0.1 < sure.floor_ < 0.9
    beyond = sure.recommend(past.users[5], significance=sure.floor_ / 2)
    assert not beyond.guarantee.holds
    assert "not in the user's list (lists of 10 items)" in str(beyond.guarantee)
    assert len(beyond) < beyond.n_candidates
    assert f"and all {len(beyond)} scored items qualify" in str(beyond.guarantee)
    assert f"more than {100 * beyond.highest_confidence:.4g}% confidence" in str(beyond.guarantee)
    assert 1 - beyond.highest_confidence == pytest.approx(sure.floor_, abs=0.01)
    # The share of items outside lists limits the confidence, up to the finite-sample term.
    said = re.search(r"users, ([0-9.]+)% of what a user", beyond.guarantee.reason)
    unknown = float(said[1]) / 100
    assert 0 < 1 - beyond.highest_confidence - unknown < 1 / len(sure.calibration_) + 0.001
    assert sure.calibration_.unknown_share == pytest.approx(unknown, abs=0.01)
    assert len(beyond) == 10  # items outside the list are in no set
    within = sure.recommend(past.users[5], significance=sure.floor_ + 0.05)
    assert str(within.guarantee).startswith("Recall of at least ")


@pytest.mark.parametrize("fallback", ["popularity", "CM12"])
def test_a_fallback_raises_the_highest_confidence(halves, scores, fallback):
    past, future = halves
    lists = frame_of(scores, past, k=10)
    calibrating, others = apart(past, future)
    sure = sr.wrap(lists, fallback=fallback).calibrate(past, calibrating)
    assert sure.floor_ < 0.05
    assert missed(sure, past, future, 0.1, others) == pytest.approx(0.1, abs=0.04)
    picks = sure.recommend(past.users[5], confidence=0.9)
    best = past.items.ids.gather(np.argsort(-scores[5], kind="stable")[:10]).to_list()
    assert sorted(picks.items[:10]) == sorted(best)  # the list comes first
    if fallback == "popularity":  # of the past, and of nobody's future
        consumed = np.bincount(past.item_codes, minlength=past.n_items)
        counts = consumed[past.items.codes(pl.Series(picks.items[10:]))]
        assert (np.diff(counts) <= 0).all()


@pytest.mark.parametrize(("k", "fallback"), [(None, None), (8, "popularity"), (8, "CM12")])
def test_lists_are_saved_and_loaded(halves, scores, tmp_path, k, fallback):
    past, future = halves
    sure = sr.wrap(frame_of(scores, past, k=k), fallback=fallback).calibrate(past, future)
    sure.save(tmp_path / "lists")
    back = sr.load(tmp_path / "lists")  # and no scorer= is needed
    asked = {"significance": 0.6}
    assert back.recommend_many(**asked).equals(sure.recommend_many(**asked))
    mine, theirs = (each.recommend(past.users[2], **asked).guarantee for each in (sure, back))
    assert mine == theirs
    assert back.floor_ == sure.floor_


def test_items_outside_a_list_have_no_probability(halves, scores):
    past, future = halves
    frame = frame_of(scores, past, k=20)
    sure = sr.wrap(frame).calibrate(past, future)
    assessment = sure.model_.assess(sure.model_.query(1))
    listed = set(frame.filter(user_id=1)["item_id"])
    inside = np.array([sure.items_[int(code)] in listed for code in assessment.candidates])
    assert 0 < inside.sum() <= 20
    found = assessment.probabilities(np.arange(len(inside))).probability
    assert np.array_equal(np.isfinite(found), inside)


def test_users_without_a_list_are_refused(halves, scores):
    past, future = halves
    lists = frame_of(scores, past).filter(pl.col("user_id") != past.users[4])
    with pytest.warns(sr.LeftOutWarning, match="1 of the 400 users of the past have no scores"):
        sure = sr.wrap(lists).calibrate(past, future)
    with pytest.raises(sr.InputError, match="Pass user=, one of these users"):
        sure.recommend(past.users[4], confidence=0.8)
    with pytest.raises(sr.InputError, match="cannot score a new user or a history"):
        sure.recommend(history=past.items.ids[:6], confidence=0.8)


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda f: pl.concat([f, f.head(2)]), "2 rows repeat a user and item, such as user"),
        (
            lambda f: f.with_columns(score=pl.lit(float("nan"))),
            r"cannot parse score .* remove those rows",
        ),
        (lambda f: f.with_columns(score=pl.lit(1.0)), "the same score for all tried users"),
        (lambda f: f.with_columns(user_id=pl.col("user_id") + 10_000), "none of the"),
        (lambda f: f.drop("item_id"), "no item column among"),
        (lambda f: f.clear(), ": no rows"),
    ],
)
def test_invalid_lists_are_refused(halves, scores, spoil, message):
    past, future = halves
    with pytest.raises(sr.InputError, match=message):
        sr.wrap(spoil(frame_of(scores, past))).calibrate(past, future)


def test_invalid_fallbacks_are_refused(halves, scores):
    past, future = halves
    with pytest.raises(sr.InputError, match="fallback is 'magic'; choose one of popularity, CM1"):
        sr.wrap(frame_of(scores, past), fallback="magic").calibrate(past, future)
    with pytest.raises(sr.InputError, match="fallback= needs a frame or file of lists"):
        sr.wrap(lambda histories: histories, items=[1], fallback="CM12").calibrate(past, future)
    with pytest.raises(sr.InputError, match="Leave items= and users= out"):
        sr.wrap(frame_of(scores, past), items=[1, 2]).calibrate(past, future)


def test_the_command_line_wraps_lists(halves, scores, tmp_path, cli, write):
    past, future = halves
    frame_of(scores, past, k=15).write_parquet(tmp_path / "top.parquet")
    past.to_frame().write_csv(tmp_path / "before.csv")
    future.to_frame().write_csv(tmp_path / "later.csv")
    given = ["--scores", tmp_path / "top.parquet", "--past", tmp_path / "before.csv"]
    given += ["--future", tmp_path / "later.csv"]
    folder = tmp_path / "model"
    done = cli("wrap", folder, *given, "--fallback", "popularity")
    assert done.code == 0, done.err
    assert "lists of 15 items of 400 users" in done.err
    assert "the smallest ε that can be guaranteed is" in done.err
    shown = cli("recommend", folder, "--user", past.users[3], "--confidence", 0.8)
    assert shown.code == 0, shown.err
    assert "users who have a list" in " ".join(shown.out.split())
    again = pl.concat([future.to_frame(), past.to_frame().head(37)])
    again.write_csv(tmp_path / "again.csv")
    wrong = write("bad.csv", "user_id,item_id,score\n1,2,x\n")
    for changed, said in [
        (["--scores", wrong], "bad.csv:2: cannot parse score 'x' (1 row)."),
        (["--horizon", 0.4], "'--horizon'"),
        (["--future", tmp_path / "again.csv"], "--repeats drop"),
    ]:
        cli("wrap", tmp_path / "other", *given, *changed).assert_refused(said)
        assert not (tmp_path / "other").exists()
    dropping = ("--future", tmp_path / "again.csv", "--repeats", "drop")
    dropped = cli("wrap", tmp_path / "other", *given, *dropping)
    assert "Dropped repeats: 37 of the" in " ".join(dropped.err.split())
    picks = cli("recommend", tmp_path / "other", "--user", past.users[3], "--format", "json")
    assert "from which 37 repeats were dropped" in picks.out
