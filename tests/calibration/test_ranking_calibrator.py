"""Arrays in, sets out: the calibration of `wrap` without ids, and learned thresholds."""

import numpy as np
import polars as pl
import pytest
from scipy.sparse import csr_matrix

import surerec as sr
from surerec.calibration.kernels import ranks_among

FILMS = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)


def drawn(n_users, n_items=40, seed=0):
    """Users of different activity, with scores that know it less well for some."""
    random = np.random.default_rng(seed)
    taste = random.normal(size=(n_users, n_items))
    seen = random.random(taste.shape) < random.uniform(0.05, 0.4, (n_users, 1))
    relevant = (random.random(taste.shape) < 1 / (1 + np.exp(2.5 - 1.5 * taste))) & ~seen
    noise = random.uniform(0, 3, (n_users, 1))
    return taste + noise * random.normal(size=taste.shape), relevant, seen


@pytest.fixture(scope="module")
def wrapped():
    """Scores of all users as a frame; the last items of two in three users are the future."""
    rows = FILMS.to_frame()
    place = pl.int_range(pl.len()).over("user_id") / pl.len().over("user_id")
    late = rows.select((place >= 0.6) & (pl.col("user_id") % 3 > 0)).to_series()
    past, future = rows.filter(~late), rows.filter(late)
    users, items = np.unique(past["user_id"]), np.unique(rows["item_id"])
    liked = np.bincount(np.searchsorted(items, past["item_id"]), minlength=len(items))
    scores = np.random.default_rng(5).normal(size=(len(users), len(items))) + np.log1p(liked)
    frame = pl.DataFrame(
        {
            "user_id": np.repeat(users, len(items)),
            "item_id": np.tile(items, len(users)),
            "score": scores.ravel(),
        }
    )

    def calibrated(**settings):
        return sr.wrap(frame, min_history=1, **settings).calibrate(past, future)

    return calibrated, future, scores, users, items


def as_arrays(model, future, scores, users, items):
    """The same users and items in the order of the model's codes."""
    profiles = model.statistics_.interactions
    order = np.searchsorted(items, profiles.items.ids.to_numpy())
    lines = np.searchsorted(users, profiles.users.ids.to_numpy())
    seen = [profiles.consumed(user).astype(int) for user in range(profiles.n_users)]
    relevant = np.zeros((len(lines), len(order)), dtype=bool)
    codes = profiles.users.codes(future["user_id"]), profiles.items.codes(future["item_id"])
    relevant[codes] = True
    return scores[lines][:, order], relevant, seen


@pytest.mark.parametrize("threshold", ["rank", "score", "learned", None])
@pytest.mark.parametrize("guarantee", ["recall", "hit"])
def test_it_equals_wrap_bit_for_bit(wrapped, guarantee, threshold):
    calibrated, *rest = wrapped
    model = calibrated(guarantee=guarantee, threshold=threshold)
    scores, relevant, seen = as_arrays(model, *rest)
    sure = sr.RankingCalibrator(guarantee, threshold=threshold).calibrate(scores, relevant, seen)
    assert sure.threshold_ == model.threshold_
    assert sure.threshold_sizes_ == model.threshold_sizes_
    assert sure.guarantee(0.8).n_calibration == model.model_.user_level.curve.n_users
    probabilities, ids = sure.predict_proba(scores, seen), model.statistics_.interactions.items.ids
    new = np.flatnonzero(~relevant.any(axis=1)).tolist()
    for confidence in (0.95, 0.8, 0.5):
        sets = sure.predict_set(scores, seen, confidence)
        for user in new:
            name = model.statistics_.interactions.users[user]
            there = model.recommend(user=name, confidence=confidence).to_frame()
            assert ids.gather(sets[user]).to_list() == there["item_id"].to_list()
            np.testing.assert_array_equal(probabilities[user, sets[user]], there["probability"])


def test_precision_equals_that_of_wrap(wrapped):
    calibrated, *rest = wrapped
    model = calibrated(guarantee="precision")
    scores, relevant, seen = as_arrays(model, *rest)
    sure = sr.RankingCalibrator("precision").calibrate(scores, relevant, seen)
    sets = sure.predict_set(scores, seen, 0.9, precision=0.15)
    profiles, new = model.statistics_.interactions, np.flatnonzero(~relevant.any(axis=1))
    there = [model.recommend(user=profiles.users[u], precision=0.15, confidence=0.9) for u in new]
    found = [profiles.items.ids.gather(sets[user]).to_list() for user in new]
    assert found == [each.to_frame()["item_id"].to_list() for each in there]
    assert any(found)
    assert "15% of the shown items" in str(sure.guarantee(0.9, precision=0.15))
    with pytest.raises(sr.InputError, match="Pass precision="):
        sure.predict_set(scores, seen)


def test_recall_equals_conformal_risk_control_of_mapie():
    control = pytest.importorskip("mapie.risk_control")
    scores, relevant, _ = drawn(200, 30)
    relevant = relevant[keeps := relevant.any(axis=1)]
    scores, n_items = scores[keeps], 30
    ranks = np.argsort(np.argsort(-scores, axis=1), axis=1) + 1
    as_scores = 1 - ranks / (n_items + 1)  # one value per rank, and one grid point between two
    grid = 1 - (np.arange(n_items + 1) + 0.5) / (n_items + 1)
    theirs = control.MultiLabelClassificationController(
        lambda x: x, risk="recall", method="crc", target_level=[0.9, 0.7, 0.5], predict_params=grid
    )
    masks = theirs.calibrate(as_scores[:100], relevant[:100]).predict(as_scores)
    sure = sr.RankingCalibrator(threshold="rank").calibrate(scores[:100], relevant[:100])
    for place, level in enumerate((0.9, 0.7, 0.5)):
        mine = sure.predict_set(scores, confidence=level).to_mask()
        np.testing.assert_array_equal(mine, masks[:, :, place])


def test_recall_equals_a_plain_conformal_risk_control():
    scores, relevant, seen = drawn(150)
    sure = sr.RankingCalibrator(threshold="rank").calibrate(scores, relevant, seen)
    ordered = np.argsort(-np.where(seen, -np.inf, scores), axis=1)
    users = np.flatnonzero(relevant.any(axis=1))
    for level in (0.95, 0.9, 0.6):
        size = 0
        while True:  # the shortest lists with (Σ losses + 1) / (n + 1) ≤ ε
            losses = [1 - relevant[u, ordered[u, :size]].sum() / relevant[u].sum() for u in users]
            if (sum(losses) + 1) / (len(users) + 1) <= 1 - level + 1e-9 or size == 40:
                break
            size += 1
        expected = np.minimum(size, (~seen).sum(axis=1))
        np.testing.assert_array_equal(sure.predict_set(scores, seen, level).sizes, expected)


@pytest.mark.parametrize("threshold", ["rank", "score", "learned"])
def test_blocks_give_what_the_matrix_gives(threshold):
    scores, relevant, seen = drawn(230)
    settings = {"threshold": threshold, "n_learning": 100}
    whole = sr.RankingCalibrator(**settings).calibrate(scores, relevant, seen)
    cuts = [slice(start, start + 37) for start in range(0, 230, 37)]
    streamed = sr.RankingCalibrator(**settings)
    streamed.calibrate((scores[cut], relevant[cut], seen[cut]) for cut in cuts)
    assert streamed.n_calibration_ == whole.n_calibration_ > 150
    blocks = list(streamed.predict_set(((scores[cut], seen[cut]) for cut in cuts), confidence=0.8))
    mask = whole.predict_set(scores, seen, 0.8).to_mask()
    np.testing.assert_array_equal(np.vstack([each.to_mask() for each in blocks]), mask)
    assert not (mask & seen).any()


class Tensor:
    """What is used of a torch tensor that requires a gradient."""

    def __init__(self, array):
        self.array, self.dtype = array, f"torch.{array.dtype}"

    def detach(self):
        self.detached = True
        return self

    def cpu(self):
        return self

    def __array__(self, dtype=None, copy=None):
        if not getattr(self, "detached", False):
            raise RuntimeError("Can't call numpy() on Tensor that requires grad.")
        return self.array


def test_all_kinds_of_arrays_are_equal():
    scores, relevant, seen = drawn(120)
    expected = sr.RankingCalibrator().calibrate(scores, relevant, seen)
    expected = expected.predict_set(scores, seen).to_mask()
    columns = (
        [np.flatnonzero(row) for row in relevant],
        [np.flatnonzero(row).tolist() for row in seen],
    )
    for given in (
        (csr_matrix(scores), csr_matrix(relevant), csr_matrix(seen)),
        (list(scores), *columns),
        (scores.tolist(), relevant.astype(int), seen.tolist()),
        (Tensor(scores), Tensor(relevant), Tensor(seen)),
    ):
        sure = sr.RankingCalibrator().calibrate(*given)
        found = sure.predict_set(given[0], given[2]).to_mask()
        np.testing.assert_array_equal(found, expected)


def test_items_without_a_score_are_in_no_set():
    scores, relevant, seen = drawn(200)
    scores[:, :4], relevant[:, 3] = np.nan, ~seen[:, 3]
    sure = sr.RankingCalibrator().calibrate(scores, relevant, seen)
    found = sure.guarantee(0.99)
    assert not found.holds
    assert "without a score" in found.reason
    sets = sure.predict_set(scores, seen, 0.99)
    assert not sets.to_mask()[:, :4].any()
    assert np.isnan(sure.predict_proba(scores, seen)[:, :4]).all()


@pytest.mark.parametrize("guarantee", ["recall", "hit"])
def test_guarantees_hold_for_users_who_calibrated_nothing(guarantee):
    losses = []
    for split in range(30):
        scores, relevant, seen = drawn(400, seed=split)
        sure = sr.RankingCalibrator(guarantee, threshold="learned", random_state=split)
        sure.calibrate(scores[:200], relevant[:200], seen[:200])
        inside = sure.predict_set(scores[200:], seen[200:], 0.8).to_mask()
        tested = relevant[200:][has := relevant[200:].any(axis=1)]
        hits = (inside[has] & tested).sum(axis=1)
        losses.append(np.mean(hits > 0 if guarantee == "hit" else hits / tested.sum(axis=1)))
    assert 0.79 < np.mean(losses) < 0.83


def test_a_learned_threshold_adapts_sets_and_is_kept_where_it_makes_them_smaller():
    """Half of the users have scores without any information, so they need longer lists."""
    random = np.random.default_rng(2)
    known = np.where(np.arange(600) % 2, 3, 15)
    scores = random.normal(size=(600, 80))
    scores[:, :15] = np.nan
    likely = np.where(known[:, None] > 3, np.exp(2 * scores - 4.5), 0.06)
    relevant = (random.random(scores.shape) < likely) & ~np.isnan(scores)
    seen = [np.arange(n) for n in known]
    sure = sr.RankingCalibrator().calibrate(scores[:400], relevant[:400], seen[:400])
    sizes = sure.predict_set(scores[400:], seen[400:], 0.8).sizes
    by_rank = sr.RankingCalibrator(threshold="rank").calibrate(
        scores[:400], relevant[:400], seen[:400]
    )
    assert sure.threshold_ == "learned"
    assert sure.threshold_sizes_["learned"][0.8] < sure.threshold_sizes_["rank"][0.8]
    assert sizes[::2].mean() < sizes[1::2].mean()
    assert sizes.mean() < by_rank.predict_set(scores[400:], seen[400:], 0.8).sizes.mean()


def test_a_saved_calibration_gives_the_same_answers(tmp_path):
    scores, relevant, seen = drawn(300)
    for guarantee in ("recall", "hit", "precision"):
        options = {"precision": 0.2} if guarantee == "precision" else {}
        sure = sr.RankingCalibrator(guarantee).calibrate(scores, relevant, seen)
        sure.save(tmp_path / "one.npz")
        same = sr.RankingCalibrator.load(tmp_path / "one.npz")
        assert str(same.guarantee(0.8, **options)) == str(sure.guarantee(0.8, **options))
        mine, theirs = (each.predict_set(scores, seen, 0.8, **options) for each in (sure, same))
        np.testing.assert_array_equal(mine.to_mask(), theirs.to_mask())
    whole = (tmp_path / "one.npz").read_bytes()
    (tmp_path / "one.npz").write_bytes(whole[: len(whole) // 2])
    for name in ("one.npz", "none.npz"):
        with pytest.raises(sr.InputError, match=name):
            sr.RankingCalibrator.load(tmp_path / name)


@pytest.mark.parametrize(
    ("change", "message"),
    [
        ({"scores": np.ones(3)}, r"scores has shape \(3,\)"),
        ({"relevant": np.ones((4, 6), bool)}, "relevant has 4 rows, and scores has 5"),
        ({"relevant": np.ones((5, 7), bool)}, "relevant has 7 columns, and scores has 6"),
        ({"relevant": [[1], [9], [1], [1], [1]]}, r"relevant\[1\] has 9. Pass column numbers"),
        ({"seen": [[], [], [5], [], []]}, r"Item 5 is both in relevant\[2\] and in seen\[2\]"),
        ({"relevant": [[]] * 5}, "No user has a relevant item"),
        ({"scores": np.ones((5, 6))}, "All scores of each user are equal"),
        ({"scores": np.full((5, 6), np.nan)}, r"scores\[0\] has only NaN or −inf"),
        ({"scores": np.full((5, 6), np.inf)}, r"scores\[0\] has \+inf in column 0"),
        ({"scores": iter([]), "seen": np.ones((5, 6))}, "scores is an iterator of blocks"),
    ],
)
def test_errors_name_the_place_and_the_fix(change, message):
    relevant = np.zeros((5, 6), dtype=bool)
    relevant[:, 5] = True
    given = {"scores": np.arange(30.0).reshape(5, 6), "relevant": relevant, **change}
    with pytest.raises(sr.InputError, match=message):
        sr.RankingCalibrator().calibrate(**given)


def test_parameters_are_checked_when_they_are_used():
    scores, relevant, _ = drawn(10)
    with pytest.raises(sr.NotFittedError):
        sr.RankingCalibrator().predict_set(scores)
    with pytest.raises(sr.InputError, match="threshold"):
        sr.RankingCalibrator(threshold="size").calibrate(scores, relevant)
    with pytest.raises(sr.InputError, match="at least 20 calibration users"):
        sr.RankingCalibrator(threshold="learned").calibrate(scores, relevant)


def test_ranks_are_those_of_a_stable_sort():
    random = np.random.default_rng(3)
    scores, outside = random.integers(0, 5, 40).astype(float), random.random(40) < 0.7
    order = np.flatnonzero(outside)[np.argsort(-scores[outside], kind="stable")].tolist()
    expected = [order.index(item) + 1 if item in order else np.inf for item in range(40)]
    np.testing.assert_array_equal(ranks_among(scores, outside, np.arange(40)), expected)


def test_learned_thresholds_work_in_batches_folders_lists_and_segments(wrapped, tmp_path):
    calibrated, *_ = wrapped
    model = calibrated(threshold="learned", segments=2)
    model.add_item_list("few", model.statistics_.interactions.items.ids[5:40])
    users = model.statistics_.interactions.users.ids.to_list()[:30]
    model.save(tmp_path / "model")
    same = sr.load(tmp_path / "model")
    assert same.threshold_ == model.threshold_ == "learned"
    for options in ({"confidence": 0.8}, {"confidence": 0.8, "item_list": "few"}):
        one = [model.recommend(user=user, **options) for user in users]
        assert all(each.guarantee.holds for each in one)
        assert len({len(each) for each in one}) > 2
        for each in (model, same):
            many = each.recommend_many(users, **options)
            found = dict(many.group_by("user_id").agg("item_id").iter_rows())
            lists = [found.get(user, []) for user in users]
            assert lists == [mine.to_frame()["item_id"].to_list() for mine in one]


def test_own_measures_learn_thresholds_live_and_after_recalibration():
    model = sr.PopulationConformal("CM12", threshold="learned").fit(FILMS)
    name = FILMS.users[3]
    alone = model.recommend(user=name, confidence=0.8)
    many = model.recommend_many([name], confidence=0.8)
    assert many["item_id"].to_list() == alone.to_frame()["item_id"].to_list()
    before = model.model_.user_level
    forgotten = before.without(int(before.users.users[0]))
    assert forgotten.threshold == "learned"
    assert len(forgotten.probabilities.chooses) == len(before.users) - 1
    end = int(np.sort(FILMS.times)[4500])
    early = sr.PopulationConformal("CM12", threshold="learned").fit(FILMS.until(end))
    assert early.recalibrate(FILMS).model_.user_level.threshold == "learned"
