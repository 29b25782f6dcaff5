import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import MEASURES, MeasureScorer, Query, find_measure
from surerec.precedence import rows_from
from tests import oracle_method as paper
from tests.recommenders.small_profiles import read, some_rows


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """For thousands of tiny profiles, starting threads is slower than counting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield


class Case:
    """Random statistics, a history of one to all items, and perhaps a user to leave out."""

    def __init__(self, data):
        rows = data.draw(some_rows, label="rows")
        ties = data.draw(st.sampled_from(["order", "strict"]), label="ties")
        strategy = data.draw(st.sampled_from(["dense", "bounded"]), label="strategy")
        memory = data.draw(st.sampled_from([None, 0, 30, 200, 1_000]), label="memory")
        interactions = read(rows)
        self.statistics = sr.count_precedence(
            interactions, ties=ties, strategy=strategy, memory=memory
        )
        self.ids = interactions.items.ids.to_list()
        someone = st.none() | st.sampled_from(interactions.users.ids.to_list())
        left_out = data.draw(someone, label="left out")
        self.without = None if left_out is None else interactions.users.code(left_out)
        self.counts = paper.count(rows, left_out, ties)
        self.history = data.draw(
            st.lists(st.sampled_from(self.ids), min_size=1, unique=True), label="history"
        )
        self.codes = interactions.items.codes(self.history)

    def score(self, scorer):
        return scorer.score(self.codes, without_user=self.without)

    def expected(self, reference, name, **reading):
        """Return the reference values of every item, by code."""
        return [reference(self.counts, name, self.history, h, **reading) for h in self.ids]


def places(values):
    """Return dense ranks: only equal values have equal ranks."""
    levels = sorted(set(values))
    return [levels.index(value) for value in values]


def conforming(name, values):
    return [-value for value in values] if paper.is_nonconformity(name) else values


@settings(max_examples=200)
@given(st.sampled_from(paper.NAMES), st.booleans(), st.integers(1, 4), st.data())
def test_scores_rank_as_the_reference_and_are_the_papers_numbers(name, literal, top, data):
    """On counts exactly, on ratios as plain floats have it."""
    reading = {"literal": True} if literal and name in paper.LITERAL_TOO else {}
    reading |= {"top": top} if name == "CM1" else {}
    case = Case(data)
    scorer = MeasureScorer(case.statistics, name, **reading)
    scores = case.score(scorer)
    exact = case.expected(paper.measure, name, **reading)
    keys = exact if name in paper.COUNTED else case.expected(paper.float_key, name, **reading)
    assert places(scores.tolist()) == places(conforming(name, keys))
    if case.counts.n_users:  # a share of no users is undefined
        values = scorer.paper_value(scores, len(case.history), case.counts.n_users)
        np.testing.assert_allclose(values, [float(v) for v in exact], rtol=1e-12, atol=0)


def test_true_ties_of_the_score_over_the_top_few_are_ties():
    # n_u · CM1 over the top 2 is 5 · 2 / 10 = 1 for x and 1 · 1 / 1 = 1 for y, but in floats
    # log 5 + log 2 − log 10 is not log 1.
    a, b, x, y = range(4)
    counts = np.zeros((4, 4), dtype=int)
    counts[a, x], counts[b, x], counts[a, y], counts[b, y] = 5, 2, 1, 1
    statistics = sr.PrecedenceStatistics.from_counts(counts, [20, 20, 10, 1], n_users=40)
    scores = MeasureScorer(statistics, "CM1", top=2).score(np.array([a, b]))
    assert scores[x] == scores[y]


@pytest.mark.parametrize("name", ["CM3", "CM7", "CM11", "NCM15"])
def test_medians_over_profiles_of_every_length(name):
    random = np.random.default_rng(2)
    counts = random.integers(0, 9, (70, 70)) * (random.random((70, 70)) < 0.7)
    np.fill_diagonal(counts, 0)
    support = random.integers(20, 40, 70)
    statistics = sr.PrecedenceStatistics.from_counts(counts, support, n_users=40)
    exact = paper.given(counts.tolist(), support.tolist(), 40)
    scorer = MeasureScorer(statistics, name)
    for length in [*range(1, 36), 47, 48, 63, 64, 65, 66]:
        history = random.permutation(70)[:length]
        chosen = random.permutation(70)[:12]
        values = scorer.paper_value(scorer.score(history), length, 40)[chosen]
        expected = [float(paper.measure(exact, name, history.tolist(), int(h))) for h in chosen]
        np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.fixture(scope="module")
def many_items():
    """Return more items than a tile of a kernel, and a user who consumed most of them."""
    random = np.random.default_rng(7)
    profiles = [random.permutation(1_500)[:1_300]]
    profiles += [random.permutation(1_500)[: random.integers(2, 90)] for _ in range(60)]
    offsets = np.cumsum([0, *map(len, profiles)])
    return sr.Interactions.from_profiles(offsets, np.concatenate(profiles))


@pytest.mark.parametrize("name", paper.NAMES)
def test_many_items_and_a_long_profile_to_leave_out(many_items, name):
    rest = slice(many_items.offsets[1], None)  # all but the first user
    users = np.repeat(np.arange(60), np.diff(many_items.offsets[1:]))
    rows = list(zip(users, many_items.item_codes[rest].tolist(), range(len(users)), strict=True))
    counts = paper.count(rows)
    history = [int(code) for code in many_items.item_codes[40:49]]
    scorer = MeasureScorer(sr.count_precedence(many_items, strategy="bounded", memory=0), name)
    values = scorer.paper_value(scorer.score(np.array(history), without_user=0), 9, 60)
    expected = [paper.measure(counts, name, history, h) for h in range(many_items.n_items)]
    np.testing.assert_allclose(values, [float(v) for v in expected], rtol=1e-12)


@pytest.mark.parametrize("name", paper.NAMES)
def test_an_item_without_consumers_conforms_least(name):
    # o0 before o1 three times, o1 before o0 twice; o2 has no consumers.
    counts = [[0, 3, 0], [2, 0, 0], [0, 0, 0]]
    statistics = sr.PrecedenceStatistics.from_counts(counts, [5, 5, 0], n_users=6)
    scores = MeasureScorer(statistics, name).score(np.array([0]))
    assert np.isfinite(scores).all()
    assert scores[2] == scores.min() < scores[1]
    as_history = MeasureScorer(statistics, name).score(np.array([2]))
    assert as_history.tolist() == [0, 0, 0]


def test_the_table_has_the_papers_names_in_the_papers_order():
    assert list(MEASURES) == paper.NAMES
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.is_nonconformity == paper.is_nonconformity(name)
        assert measure.formula
        assert find_measure(measure.readable.upper()) == measure


def test_a_measure_is_found_by_many_names():
    names = {"CM3": "CM3", "cm12": "CM12", "ncm14": "NCM14", "icrs17": "NCM17", "ICRS1": "CM1"}
    names |= {"3": "CM3", "16": "NCM16"}
    assert {name: find_measure(name).name for name in names} == names


@pytest.mark.parametrize("name", ["CM18", "0", "18", "NCM3", "CM14", "cosine", "", "ICRS"])
def test_an_unknown_measure_is_refused_with_the_list_of_measures(name):
    with pytest.raises(sr.InputError, match=r"CM1, .*CM12, .*NCM17"):
        find_measure(name)


def widened(statistics):
    """Return the same counts in 32 bits."""
    arrays = statistics.rows.arrays()
    wide = {role: array.astype(np.uint32) for role, array in arrays.items()}
    rows, films = rows_from("dense", wide, statistics.interactions), statistics.interactions
    return sr.PrecedenceStatistics(films.n_users, statistics.support, rows, interactions=films)


@pytest.fixture(scope="module")
def held():
    """Return the same counts dense, in 32 bits, and within memory budgets.

    There are more columns than in a tile, and more rows than in a block of 32-bit totals.
    """
    films = sr.datasets.synthetic(900, 1_300, 60_000, ties=0.2, random_state=9)
    dense = sr.count_precedence(films)
    assert dense.rows.followers(0).dtype == np.uint16
    budgets = [
        sr.count_precedence(films, strategy="bounded", memory=memory)
        for memory in (0, 20_000, 400_000)
    ]
    return [dense, widened(dense), *budgets]


@pytest.mark.parametrize("name", paper.NAMES)
def test_scores_do_not_depend_on_the_storage_of_counts(monkeypatch, held, name):
    monkeypatch.setenv("SUREREC_THREADS", "2")
    monkeypatch.setattr("surerec.measures._aggregates._WORTH_THREADS", 1_000.0)
    longest = int(np.argmax(np.diff(held[0].interactions.offsets)))
    everything = np.arange(1_100)
    for history, without in ((everything, None), (everything[::3], longest), ([7, 3, 900], 5)):
        expected, *others = (
            MeasureScorer(counts, name).score(np.array(history), without_user=without)
            for counts in held
        )
        for found in others:
            np.testing.assert_array_equal(found, expected)


@given(st.sampled_from(paper.NAMES), st.data())
def test_leaving_out_several_users_equals_a_refit(name, data):
    rows = data.draw(some_rows)
    ties = data.draw(st.sampled_from(["order", "strict"]))
    interactions = read(rows)
    strategy = data.draw(st.sampled_from(["dense", "bounded"]))
    statistics = sr.count_precedence(interactions, ties=ties, strategy=strategy)
    users = st.integers(0, interactions.n_users - 1)
    group = data.draw(st.lists(users, min_size=1, max_size=4, unique=True))
    items = st.integers(0, interactions.n_items - 1)
    history = np.array(data.draw(st.lists(items, min_size=1, unique=True)))
    others = sr.count_precedence(interactions.without_users(np.array(group)), ties=ties)
    others.n_users -= len(group)  # users left out stay in the map of users
    top = data.draw(st.sampled_from([1, 3]))
    scorers = [MeasureScorer(counts, name, top=top) for counts in (statistics, others)]
    left_out = scorers[0].score_query(Query(history, tuple(group)))
    np.testing.assert_array_equal(left_out, scorers[1].score_query(Query(history)))
