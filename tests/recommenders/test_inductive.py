from fractions import Fraction

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st
from scipy.stats import kstest

import surerec as sr
from tests import oracle_method as paper
from tests.recommenders.small_profiles import Person, as_dict, read

measures = st.sampled_from(paper.NAMES)


@given(st.sampled_from(paper.COUNTED), st.data())
def test_p_values_on_counts_are_exact(name, data):
    person = Person(data)
    assert person.p_values(sr.InductiveConformal(measure=name)) == person.expected(
        lambda item: paper.icrs(person.counts, name, person.history, item)
    )


@given(st.sampled_from(paper.RATIOS), st.booleans(), st.data())
def test_p_values_on_ratios_are_those_of_plain_floats(name, literal, data):
    literal = literal and name in paper.LITERAL_TOO
    person = Person(data)
    model = sr.InductiveConformal(measure=name, literal=literal)
    assert person.p_values(model) == person.expected(
        lambda item: paper.icrs(
            person.counts, name, person.history, item, floats=True, literal=literal
        )
    )


@given(st.integers(1, 3), st.data())
def test_p_values_of_the_score_over_the_top_few_are_exact(top, data):
    person = Person(data)
    assert person.p_values(sr.InductiveConformal(measure="CM1", top=top)) == person.expected(
        lambda item: paper.icrs(person.counts, "CM1", person.history, item, top=top)
    )


@pytest.fixture(scope="module")
def crowd():
    """Large enough for every path of the kernels, small enough for fractions."""
    interactions = sr.datasets.synthetic(150, 90, 6_000, ties=0.3, seed=21)
    rows = [(u, i, t.timestamp()) for u, i, t in interactions.to_frame().iter_rows()]
    longest = int(np.argmax(np.diff(interactions.offsets)))
    user = interactions.users.ids[longest]
    taken = interactions.profile(user)["item_id"].to_list()
    counts = paper.count(rows, without=user)
    return sr.count_precedence(interactions), user, taken, counts


@pytest.mark.parametrize("known", [29, 30])
@pytest.mark.parametrize("name", paper.NAMES)
def test_long_profiles(crowd, name, known):
    statistics, user, taken, counts = crowd
    assert len(taken) >= known
    history = taken[:known]
    model = sr.InductiveConformal(measure=name).fit(statistics)
    found = as_dict(model.p_values(user=user, history=history))
    train, calibration = paper.split(history)
    judge = paper.float_key if name in paper.RATIOS else paper.measure
    alphas = [judge(counts, name, train, c) for c in calibration]
    expected = {}
    for item in found:
        new = judge(counts, name, train, item)
        nonconformity = paper.is_nonconformity(name)
        expected[item] = float(paper.p_value(alphas, new, nonconformity=nonconformity))
    assert found == expected
    assert len(found) == statistics.n_items - known


@given(measures, st.data())
def test_the_score_shown_is_the_papers_number(name, data):
    # Nonconformity with the sign turned, so that the higher conforms more.
    person = Person(data)
    assume(person.counts.n_users)
    model = sr.InductiveConformal(measure=name).fit(person.statistics())
    frame = model.recommend(**person.asked, confidence=0.999).to_frame()
    train, _ = paper.split(person.history)
    for item, score in as_dict(frame, "score").items():
        value = float(paper.measure(person.counts, name, train, item))
        shown = -value if paper.is_nonconformity(name) else value
        assert score == pytest.approx(shown, rel=1e-12, abs=1e-300)


@pytest.mark.parametrize(("share", "n", "m"), [(0.5, 5, 3), (0.07, 100, 7), (0.3, 10, 3)])
def test_the_split_is_rounded_up_as_decimals_are(share, n, m):
    # In floats 0.07 · 100 = 7.000000000000001, whose ceiling is 8.
    rows = [(user, item, item) for user in range(2) for item in range(n + 1)]
    model = sr.InductiveConformal(measure="CM3", train_share=share).fit(read(rows))
    l = n - m  # noqa: E741  # the paper's letter
    assert model.recommend(history=list(range(n)), confidence=0.5).highest_confidence == l / (l + 1)


@settings(max_examples=30)
@given(measures, st.data())
def test_leaving_a_user_out_is_refitting_without_them(name, data):
    # Everything is also taken by somebody else, so that the refitted model knows the same items.
    person = Person(data)
    anchor = [("anchor", item, 0) for item in range(10)]
    rows = [(str(user), item, time) for user, item, time in person.rows]
    user = data.draw(st.sampled_from(sorted({row[0] for row in rows})))
    all_rows, rest = anchor + rows, anchor + [row for row in rows if row[0] != user]
    model = sr.InductiveConformal(measure=name)
    history = read(all_rows).profile(user)["item_id"].to_list()
    left_out = as_dict(model.fit(read(all_rows)).p_values(user=user))
    assert left_out == as_dict(model.fit(read(rest)).p_values(history=history))
    beside = model.fit(read(all_rows)).p_values(user=user, history=history[::-1])
    assert as_dict(beside) == as_dict(model.fit(read(rest)).p_values(history=history[::-1]))


def test_a_profile_of_one_item_supports_no_confidence_and_says_so():
    rows = [(user, item, item) for user in range(4) for item in range(5)]
    picks = sr.InductiveConformal().fit(read(rows)).recommend(history=[2], confidence=0.9)
    assert picks.highest_confidence == 0
    assert picks.everything_qualifies
    assert sorted(picks.to_frame()["item_id"]) == [0, 1, 3, 4]
    assert set(picks.to_frame()["p_value"]) == {1.0}


def test_the_only_user_there_is():
    model = sr.InductiveConformal(measure="NCM16").fit(
        read([(1, "a", 1), (1, "b", 2), (1, "c", 3)])
    )
    assert as_dict(model.p_values(user=1, history=["a", "b"])) == {}  # nobody else knows c
    with pytest.raises(sr.InputError, match="Nobody else consumed 'c'"):
        model.explain(user=1, history=["a", "b"], item="c")
    assert len(model.recommend(user=1, confidence=0.5)) == 0  # nothing is left to recommend


class TestSmoothed:
    interactions = sr.datasets.synthetic(80, 60, 2_000, seed=6)

    def model(self, **settings):
        return sr.InductiveConformal(measure="CM2", smoothed=True, **settings).fit(
            self.interactions
        )

    def test_every_p_value_lies_within_its_tie(self):
        plain = sr.InductiveConformal(measure="CM2").fit(self.interactions)
        user = self.interactions.users.ids[0]
        upper = as_dict(plain.p_values(user=user))
        smoothed = as_dict(self.model().p_values(user=user))
        assert smoothed.keys() == upper.keys()
        rows = [(u, i, t.timestamp()) for u, i, t in self.interactions.to_frame().iter_rows()]
        counts = paper.count(rows, without=user)
        train, calibration = paper.split(self.interactions.profile(user)["item_id"].to_list())
        alphas = [paper.measure(counts, "CM2", train, c) for c in calibration]
        for item, p_value in smoothed.items():
            own = paper.measure(counts, "CM2", train, item)
            lower = Fraction(sum(alpha < own for alpha in alphas), len(alphas) + 1)
            assert lower <= p_value <= upper[item]

    def test_the_seed_decides_and_nothing_else(self):
        user = self.interactions.users.ids[3]
        first = self.model(seed=1).p_values(user=user)
        assert first.equals(self.model(seed=1).p_values(user=user))
        assert not first.equals(self.model(seed=2).p_values(user=user))
        some = first["item_id"].to_list()[5:2:-1]
        alone = self.model(seed=1).p_values(user=user, items=some)
        assert as_dict(alone) == {item: as_dict(first)[item] for item in some}

    def test_users_and_items_get_their_own_luck(self):
        # Nothing calibrates a history of one item: p = u · (0 + 1) / 1 is the luck itself.
        model = self.model()
        only = self.interactions.items.ids[0]
        luck = [
            model.p_values(user=user, history=[only])["p_value"].to_numpy()
            for user in self.interactions.users.ids
        ]
        together = np.concatenate(luck)
        assert len(np.unique(together)) == len(together)
        assert kstest(together, "uniform").pvalue > 0.01
        for other in luck[1:]:
            assert abs(np.corrcoef(luck[0], other)[0, 1]) < 0.6  # 59 items: about 4.6 deviations
