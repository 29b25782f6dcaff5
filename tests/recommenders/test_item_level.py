"""The paper's recommenders against its definitions, in fractions; and the lemma of validity."""

import math
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from scipy.stats import binom, kstest

import surerec as sr
from surerec.recommenders import refitted
from tests import oracle_method as paper
from tests.recommenders.small_profiles import SmallCase, as_dict, read


@given(st.sampled_from(paper.NAMES), st.booleans(), st.integers(1, 3), st.data())
def test_p_values_are_those_of_the_definition(name, literal, top, data):
    """On counts exactly, on ratios as plain floats have it."""
    settings = {"top": top} if name == "CM1" else {}
    settings |= {"literal": literal and name in paper.LITERAL_TOO}
    case, floats = SmallCase(data), name in paper.RATIOS
    assert case.p_values(sr.InductiveConformal(name, **settings)) == case.expected(
        lambda item: paper.icrs(case.counts, name, case.history, item, floats=floats, **settings)
    )


@given(st.sampled_from(paper.NAMES), st.data())
def test_the_score_shown_is_the_papers_number(name, data):
    # Nonconformity with the sign turned, so that the higher conforms more.
    case = SmallCase(data)
    assume(case.counts.n_users)
    model = sr.InductiveConformal(measure=name).fit(case.statistics())
    frame = model.recommend(**case.request, confidence=0.999).to_frame()
    train, _ = paper.split(case.history)
    for item, score in as_dict(frame, "score").items():
        value = float(paper.measure(case.counts, name, train, item))
        shown = -value if paper.is_nonconformity(name) else value
        assert score == pytest.approx(shown, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("share", "n", "m"), [(0.5, 5, 3), (0.07, 100, 7), (0.3, 10, 3)])
def test_the_split_is_rounded_up_as_decimals_are(share, n, m):
    # In floats 0.07 · 100 = 7.000000000000001, whose ceiling is 8.
    rows = [(user, item, item) for user in range(2) for item in range(n + 1)]
    model = sr.InductiveConformal(measure="CM3", train_share=share).fit(read(rows))
    l = n - m  # noqa: E741  # the paper's letter
    assert model.recommend(history=list(range(n)), confidence=0.5).highest_confidence == l / (l + 1)


def test_the_only_user_there_is():
    model = sr.InductiveConformal(measure="NCM16").fit(
        read([(1, "a", 1), (1, "b", 2), (1, "c", 3)])
    )
    assert as_dict(model.p_values(user=1, history=["a", "b"])) == {}  # no other user consumed c
    with pytest.raises(sr.InputError, match="No other user consumed 'c'"):
        model.explain(user=1, history=["a", "b"], item="c")
    assert len(model.recommend(user=1, confidence=0.5)) == 0  # nothing is left to recommend


class TestSmoothed:
    interactions = sr.datasets.synthetic(80, 60, 2_000, random_state=6)

    def model(self, **settings):
        return sr.InductiveConformal(measure="CM2", smoothed=True, **settings).fit(
            self.interactions
        )

    def test_the_seed_decides_and_nothing_else(self):
        user = self.interactions.users.ids[3]
        first = self.model(random_state=1).p_values(user=user)
        assert first.equals(self.model(random_state=1).p_values(user=user))
        assert not first.equals(self.model(random_state=2).p_values(user=user))
        some = first["item_id"].to_list()[5:2:-1]
        alone = self.model(random_state=1).p_values(user=user, items=some)
        assert as_dict(alone) == {item: as_dict(first)[item] for item in some}

    def test_users_and_items_have_independent_random_numbers(self):
        # Nothing calibrates a history of one item: p = u · (0 + 1) / 1 is the luck itself.
        model = self.model()
        only = self.interactions.items.ids[0]
        luck = [
            model.p_values(user=user, history=[only])["p_value"].to_numpy()
            for user in self.interactions.users.ids
        ]
        pooled = np.concatenate(luck)
        assert len(np.unique(pooled)) == len(pooled)
        assert kstest(pooled, "uniform").pvalue > 0.01
        for other in luck[1:]:
            assert abs(np.corrcoef(luck[0], other)[0, 1]) < 0.6  # 59 items: about 4.6 deviations


@given(
    st.sampled_from(["max", "median"]),
    st.sampled_from(["exact", "product"]),
    st.sampled_from(["sorted", "plain"]),
    st.data(),
)
def test_transductive_p_values_are_exact(aggregate, zeros, search, data):
    case = SmallCase(data)
    model = sr.TransductiveConformal(aggregate=aggregate, zeros=zeros, search=search)
    assert case.p_values(model) == case.expected(
        lambda item: paper.crs(case.counts, case.history, item, aggregate=aggregate, zeros=zeros)
    )


def test_the_highest_confidence_comes_from_the_items_trained_on():
    # Here T is what the new item is compared with: m = 3 of 5, so m / (m + 1).
    rows = [(user, item, item) for user in range(4) for item in range(7)]
    for aggregate in ("max", "median"):
        model = sr.TransductiveConformal(aggregate=aggregate).fit(read(rows))
        picks = model.recommend(history=[0, 1, 2, 3, 4], confidence=0.8)
        assert picks.highest_confidence == 3 / 4
        assert picks.everything_qualifies
        assert len(picks) == 2


@pytest.mark.parametrize("aggregate", ["max", "median"])
def test_without_any_witness_no_confidence_is_supported(aggregate):
    # Only ann consumed c and d, so her calibration items are unusable, and nothing is left out.
    rows = [("ann", item, t) for t, item in enumerate("abcd")]
    rows += [("bob", item, t) for t, item in enumerate("abxy")]
    model = sr.TransductiveConformal(aggregate=aggregate).fit(read(rows))
    assert as_dict(model.p_values(user="ann")) == {"x": 1.0, "y": 1.0}
    picks = model.recommend(user="ann", confidence=0.5)
    assert picks.highest_confidence == 0
    assert picks.everything_qualifies


@given(st.none() | st.integers(1, 4), st.data())
def test_scores_and_their_order_are_the_papers(top, data):
    case = SmallCase(data)
    model = sr.PrecedenceMining(top=top).fit(case.statistics())
    frame = model.recommend(**case.request).to_frame()
    assert sorted(frame["item_id"]) == sorted(case.candidates)
    assert frame["rank"].to_list() == list(range(1, len(frame) + 1))
    exact = [paper.score(case.counts, case.history, item, top) for item in frame["item_id"]]
    for score, expected in zip(frame["score"].to_list(), exact, strict=True):
        if expected == 0:
            assert score == -math.inf
        else:
            assert math.exp(score) == pytest.approx(float(expected), rel=1e-9)
    for better, worse in pairwise(exact):
        assert float(better) >= float(worse) * (1 - 1e-9)


def test_long_profiles_do_not_underflow():
    # 400 items, each before x in 1 of x's 2 users and before y in 2 of y's 3: 2^−400 and (2/3)^400
    # times the shares 2/5 and 3/5 of 5 users. In floats both products are 0 long before (400 · 3).
    n = 1_200
    profile = [f"item {place}" for place in range(n)]
    rows = [(1, item, t) for t, item in enumerate([*profile, "x", "y"])]
    rows += [(2, item, t) for t, item in enumerate([*profile, "y"])]
    rows += [(3, "x", 1), (4, "y", 1), (5, "item 0", 1)]
    model = sr.PrecedenceMining().fit(read(rows))
    frame = model.recommend(history=profile).to_frame()
    assert frame["item_id"].to_list() == ["y", "x"]
    expected = [math.log(3 / 5) + n * math.log(2 / 3), math.log(2 / 5) + n * math.log(1 / 2)]
    assert frame["score"].to_list() == pytest.approx(expected, rel=1e-9)


N_USERS = 250


TRAIN, CALIBRATION = 4, 7
LEVELS = [0.05, 0.1, 0.15, 0.2, 0.3, 0.5, 0.7, 0.9]


@pytest.fixture(scope="module")
def statistics():
    """Counts of other users; those queried below are new."""
    return sr.count_precedence(sr.datasets.synthetic(300, 60, 6_000, random_state=9))


@pytest.fixture(scope="module")
def users():
    """First some items, then others in an order that is a random permutation; the last is new."""
    random = np.random.default_rng(31)
    drawn = [random.permutation(60)[: TRAIN + CALIBRATION + 1] for _ in range(N_USERS)]
    return [(codes[:-1], codes[-1]) for codes in drawn]


def p_values(model, statistics, users, seeds=None):
    """Return each user's p-value of one new item: items of one user depend on each other."""
    ids = statistics.interactions.items.ids
    found = []
    for place, (known, new) in enumerate(users):
        if seeds is not None:
            model = refitted(model, statistics, random_state=seeds + place)
        history = ids.gather(known).to_list()
        frame = model.p_values(history=history, items=[ids[int(new)]])
        found.append(frame["p_value"][0])
    return np.array(found)


@pytest.mark.parametrize("name", paper.NAMES)
def test_a_new_item_is_rarely_left_out(statistics, users, name):
    model = sr.InductiveConformal(measure=name, train_share=TRAIN / (TRAIN + CALIBRATION))
    model.fit(statistics)
    found = p_values(model, statistics, users)
    for level in LEVELS:
        errors = int((found <= level + 1e-9).sum())
        # So many errors or more have a probability of 1e-4 if the lemma is true.
        assert binom.sf(errors - 1, N_USERS, level) > 1e-4, (level, errors)


@pytest.mark.parametrize("name", paper.NAMES)
def test_smoothed_p_values_are_uniform(statistics, users, name):
    model = sr.InductiveConformal(
        measure=name, train_share=TRAIN / (TRAIN + CALIBRATION), smoothed=True
    )
    model.fit(statistics)
    found = p_values(model, statistics, users, seeds=1_000)
    assert kstest(found, "uniform").pvalue > 1e-3


def test_the_test_notices_when_items_are_not_exchangeable(statistics, users):
    # Calibrate on popular items and call a rare one new; codes are numbered by popularity.
    by_popularity = []
    for known, _ in users:
        rest = np.setdiff1d(np.arange(60), known[:TRAIN])
        by_popularity.append((np.r_[known[:TRAIN], rest[:CALIBRATION]], rest[-1]))
    model = sr.InductiveConformal(measure="CM4", train_share=TRAIN / (TRAIN + CALIBRATION))
    found = p_values(model.fit(statistics), statistics, by_popularity)
    errors = int((found <= 0.2).sum())
    assert binom.sf(errors - 1, N_USERS, 0.2) < 1e-4
