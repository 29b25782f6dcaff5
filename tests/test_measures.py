import numpy as np
import polars as pl
import pytest
from hypothesis import given
from hypothesis import strategies as st

import surerec as sr
from surerec.measures import MEASURES, MeasureScorer, Query, _aggregates, find_measure
from surerec.precedence._rows import DenseRows
from tests import oracle_method as paper

a_row = st.tuples(st.integers(0, 7), st.integers(0, 9), st.integers(0, 5))
some_rows = st.one_of(  # few, so that most counts are 0; and many, so that most are not
    st.lists(a_row, min_size=1, max_size=25), st.lists(a_row, min_size=40, max_size=90)
)
COUNTED, RATIOS = st.sampled_from(paper.COUNTED), st.sampled_from(paper.RATIOS)
EITHER = st.booleans()


@pytest.fixture(autouse=True, scope="module")
def one_thread():
    """On thousands of tiny profiles, starting threads would take longer than all the counting."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("SUREREC_THREADS", "1")
        yield


def read(rows):
    return sr.read_interactions(pl.DataFrame(rows, schema=["user", "item", "time"], orient="row"))


class Case:
    """Random statistics, a history of one to all items, and perhaps a user to leave out."""

    def __init__(self, data):
        rows = data.draw(some_rows, label="rows")
        ties = data.draw(st.sampled_from(["order", "strict"]), label="ties")
        strategy = data.draw(st.sampled_from(["dense", "bounded", "on-demand"]), label="strategy")
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

    def expected(self, judge, name, **reading):
        """What the oracle says of every item, by code."""
        return [judge(self.counts, name, self.history, h, **reading) for h in self.ids]


def places(values):
    """Dense ranks: equal values, and only they, get equal places."""
    levels = sorted(set(values))
    return [levels.index(value) for value in values]


def conforming(name, values):
    return [-value for value in values] if paper.is_nonconformity(name) else values


@given(COUNTED, st.data())
def test_measures_on_counts_rank_exactly_as_fractions_do(name, data):
    case = Case(data)
    scores = case.score(MeasureScorer(case.statistics, name))
    assert scores.dtype == np.float64
    expected = conforming(name, case.expected(paper.measure, name))
    assert places(scores.tolist()) == places(expected)


@given(RATIOS, EITHER, st.data())
def test_measures_on_ratios_rank_exactly_as_plain_floats_do(name, literal, data):
    literal = literal and name in paper.LITERAL_TOO
    case = Case(data)
    scores = case.score(MeasureScorer(case.statistics, name, literal=literal))
    expected = case.expected(paper.float_key, name, literal=literal)
    assert places(scores.tolist()) == places(expected)


@given(st.sampled_from(["CM6", "CM9", "CM10", "CM13"]), EITHER, st.data())
def test_the_least_and_the_greatest_ratio_rank_exactly_as_fractions_do(name, literal, data):
    # One correctly rounded division: equal fractions are equal floats, and only they.
    literal = literal and name in paper.LITERAL_TOO
    case = Case(data)
    scores = case.score(MeasureScorer(case.statistics, name, literal=literal))
    expected = case.expected(paper.measure, name, literal=literal)
    assert places(scores.tolist()) == places(expected)


@given(st.sampled_from(paper.NAMES), EITHER, st.data())
def test_values_are_the_papers_numbers(name, literal, data):
    literal = literal and name in paper.LITERAL_TOO
    case = Case(data)
    if not case.counts.n_users:  # a share of nobody is no number
        return
    scorer = MeasureScorer(case.statistics, name, literal=literal)
    values = scorer.paper_value(case.score(scorer), len(case.history), case.counts.n_users)
    expected = case.expected(paper.measure, name, literal=literal)
    np.testing.assert_allclose(values, [float(v) for v in expected], rtol=1e-12, atol=0)


@given(st.integers(1, 4), st.data())
def test_the_score_over_the_top_few(top, data):
    case = Case(data)
    if not case.counts.n_users:
        return
    scorer = MeasureScorer(case.statistics, "CM1", top=top)
    scores = case.score(scorer)
    expected = case.expected(paper.measure, "CM1", top=top)
    values = scorer.paper_value(scores, len(case.history), case.counts.n_users)
    np.testing.assert_allclose(values, [float(v) for v in expected], rtol=1e-12, atol=0)
    # Such small products are exact, so ties must be, too: PC₁ · PC₂ · … / Sup^(I−1), divided once.
    assert places(scores.tolist()) == places(expected)


def test_true_ties_of_the_score_over_the_top_few_are_ties():
    # n_u · CM1 over the top 2 is 5 · 2 / 10 = 1 for x and 1 · 1 / 1 = 1 for y, but in floats
    # log 5 + log 2 − log 10 is not log 1.
    a, b, x, y = range(4)
    counts = np.zeros((4, 4), dtype=int)
    counts[a, x], counts[b, x], counts[a, y], counts[b, y] = 5, 2, 1, 1
    statistics = sr.PrecedenceStatistics.from_counts(counts, [20, 20, 10, 1], n_users=40)
    scores = MeasureScorer(statistics, "CM1", top=2).score(np.array([a, b]))
    assert scores[x] == scores[y]


@given(st.data())
def test_the_score_over_the_best_one_ranks_as_the_highest_count(data):
    case = Case(data)  # paper.md 4
    cm1 = case.score(MeasureScorer(case.statistics, "CM1"))
    cm5 = case.score(MeasureScorer(case.statistics, "CM5"))
    assert places(cm1.tolist()) == places(cm5.tolist())


@given(st.sampled_from(paper.NAMES), st.data())
def test_leaving_a_user_out_is_scoring_on_statistics_without_them(name, data):
    case = Case(data)
    if case.without is None:
        return
    beside = MeasureScorer(case.statistics, name)
    behind = MeasureScorer(case.statistics.without_user(case.without), name)
    np.testing.assert_array_equal(case.score(beside), behind.score(case.codes))


@given(st.sampled_from(sorted(set(paper.NAMES) - {"CM8", "CM12"})), st.data())
def test_the_order_of_the_history_is_irrelevant(name, data):
    # But for means of ratios, which are summed in profile order.
    case = Case(data)
    scorer = MeasureScorer(case.statistics, name)
    shuffled = data.draw(st.permutations(case.codes.tolist()))
    again = scorer.score(np.array(shuffled), without_user=case.without)
    np.testing.assert_array_equal(case.score(scorer), again)


def test_a_median_of_two_lies_between_them_and_ties_exactly():
    # Items a, b then x or y: PC(a, x), PC(b, x) = 3, 0 and PC(a, y), PC(b, y) = 2, 1.
    profiles = ["ax", "ax", "ax", "ay", "ay", "by"]
    rows = [(user, item, t) for user, items in enumerate(profiles) for t, item in enumerate(items)]
    interactions = read(rows)
    a, b, x, y = interactions.items.codes(list("abxy"))
    scorer = MeasureScorer(sr.count_precedence(interactions), "CM3")
    scores = scorer.score(np.array([a, b]))
    assert scores[x] == scores[y]
    values = scorer.paper_value(scores, 2, 6)
    assert values[x] == values[y] == 1.5
    assert values[a] == 0


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
        judged = random.permutation(70)[:12]
        values = scorer.paper_value(scorer.score(history), length, 40)[judged]
        expected = [float(paper.measure(exact, name, history.tolist(), int(h))) for h in judged]
        np.testing.assert_allclose(values, expected, rtol=1e-12)


@pytest.fixture(scope="module")
def many_items():
    """More items than a kernel takes at once, and a user who took most of them."""
    random = np.random.default_rng(7)
    profiles = [random.permutation(1_500)[:1_300]]
    profiles += [random.permutation(1_500)[: random.integers(2, 90)] for _ in range(60)]
    offsets = np.cumsum([0, *map(len, profiles)])
    return sr.Interactions.from_profiles(offsets, np.concatenate(profiles))


@pytest.mark.parametrize("name", paper.NAMES)
def test_many_items_and_a_long_profile_to_leave_out(many_items, name):
    rest = slice(many_items.offsets[1], None)  # all but the first user
    users = np.repeat(np.arange(60), np.diff(many_items.offsets[1:]))
    rows = list(zip(users, many_items.items_taken[rest].tolist(), range(len(users)), strict=True))
    counts = paper.count(rows)
    history = [int(code) for code in many_items.items_taken[40:49]]
    scorer = MeasureScorer(sr.count_precedence(many_items, strategy="on-demand"), name)
    values = scorer.paper_value(scorer.score(np.array(history), without_user=0), 9, 60)
    expected = [paper.measure(counts, name, history, h) for h in range(many_items.n_items)]
    np.testing.assert_allclose(values, [float(v) for v in expected], rtol=1e-12)


def test_nobody_was_free_to_take_it_later():
    # Everyone who took i had taken h before: Sup(i) − PC(h, i) = 2 − 2 = 0 (paper.md 11).
    interactions = read([(u, item, t) for u in (1, 2) for t, item in enumerate("hi")])
    h, i = interactions.items.codes(list("hi"))
    for name in ("CM10", "CM11", "CM12", "CM13"):
        scores = MeasureScorer(sr.count_precedence(interactions), name).score(np.array([i]))
        assert scores[h] == 0
        assert np.isfinite(scores).all()


@pytest.mark.parametrize("name", paper.NAMES)
def test_an_item_nobody_took_conforms_least_and_divides_nothing(name):
    # o0 before o1 thrice, o1 before o0 twice; nobody took o2.
    counts = [[0, 3, 0], [2, 0, 0], [0, 0, 0]]
    statistics = sr.PrecedenceStatistics.from_counts(counts, [5, 5, 0], n_users=6)
    scores = MeasureScorer(statistics, name).score(np.array([0]))
    assert np.isfinite(scores).all()
    assert scores[2] == scores.min() < scores[1]
    as_history = MeasureScorer(statistics, name).score(np.array([2]))
    assert as_history.tolist() == [0, 0, 0]


def test_scores_do_not_depend_on_what_was_asked_before():
    statistics = sr.count_precedence(sr.datasets.synthetic(60, 30, 900, seed=3))
    scorer = MeasureScorer(statistics, "CM12")
    first = scorer.score(np.array([1, 2, 3]), without_user=4).copy()
    scorer.score(np.array([7, 8, 9, 10]))
    np.testing.assert_array_equal(first, scorer.score(np.array([1, 2, 3]), without_user=4))


def test_the_table_has_the_papers_names_in_the_papers_order():
    assert list(MEASURES) == paper.NAMES
    for name, measure in MEASURES.items():
        assert measure.name == name
        assert measure.is_nonconformity == paper.is_nonconformity(name)
        assert measure.readable
        assert measure.formula
    assert len({measure.readable for measure in MEASURES.values()}) == 17


def test_four_statistics_with_four_aggregates_each():
    aggregates = [MEASURES[name].aggregate for name in paper.NAMES[1:]]
    assert aggregates == aggregates[:4] * 4
    assert len(set(aggregates[:4])) == 4
    statistics = [MEASURES[name].statistic for name in paper.NAMES[1:]]
    assert statistics == [statistics[4 * (place // 4)] for place in range(16)]
    assert len(set(statistics)) == 4


@pytest.mark.parametrize(
    ("said", "meant"),
    [
        ("CM3", "CM3"),
        ("cm12", "CM12"),
        ("ncm14", "NCM14"),
        ("ICRS3", "CM3"),
        ("icrs17", "NCM17"),
        ("ICRS1", "CM1"),
        ("3", "CM3"),
        ("16", "NCM16"),
    ],
)
def test_a_measure_is_found_by_many_names(said, meant):
    assert find_measure(said).name == meant


@pytest.mark.parametrize("name", paper.NAMES)
def test_a_measure_is_found_by_its_readable_name(name):
    assert find_measure(MEASURES[name].readable).name == name
    assert find_measure(MEASURES[name].readable.upper()).name == name


@pytest.mark.parametrize("said", ["CM18", "0", "18", "NCM3", "CM14", "cosine", "", "ICRS"])
def test_an_unknown_measure_is_refused_with_the_list_of_them(said):
    with pytest.raises(sr.InputError) as error:
        find_measure(said)
    assert "CM1" in str(error.value)
    assert "CM12" in str(error.value)
    assert "NCM17" in str(error.value)


def widened(statistics):
    """The same counts in 32 bits."""
    rows = statistics.rows
    return sr.PrecedenceStatistics(
        statistics.n_users,
        statistics.support,
        DenseRows(*(np.array(m, dtype=np.uint32) for m in (rows._followers, rows._predecessors))),
        interactions=statistics.interactions,
    )


@pytest.mark.parametrize("name", paper.NAMES)
def test_the_width_of_counts_changes_nothing(name):
    # More columns than a tile, more rows than 32-bit totals take at once.
    statistics = sr.count_precedence(sr.datasets.synthetic(900, 1_300, 60_000, ties=0.2, seed=9))
    assert statistics.rows.followers(0).dtype == np.uint16
    wide = widened(statistics)
    longest = int(np.argmax(np.diff(statistics.interactions.offsets)))
    everything = np.arange(1_100)
    for history, without in ((everything, None), (everything[::3], longest), ([7, 3, 900], 5)):
        old, new = (
            MeasureScorer(counts, name).score(np.array(history), without_user=without)
            for counts in (statistics, wide)
        )
        np.testing.assert_array_equal(old, new)


@pytest.mark.parametrize("name", paper.NAMES)
def test_every_budget_gives_the_same_scores_on_longer_profiles(monkeypatch, name):
    monkeypatch.setenv("SUREREC_THREADS", "2")
    monkeypatch.setattr(_aggregates, "_WORTH_THREADS", 1_000.0)
    films = sr.datasets.synthetic(300, 2_100, 20_000, ties=0.2, seed=4)
    taken = [films.items_taken[films.offsets[u] : films.offsets[u + 1]] for u in range(40)]
    expected = None
    for memory in (10**9, 0, 20_000, 400_000):
        rule = "dense" if memory == 10**9 else "bounded"
        scorer = MeasureScorer(sr.count_precedence(films, strategy=rule, memory=memory), name)
        found = [scorer.score(items, without_user=u) for u, items in enumerate(taken)]
        expected = found if expected is None else expected
        for old, new in zip(expected, found, strict=True):
            np.testing.assert_array_equal(old, new)


@given(st.sampled_from(paper.NAMES), st.data())
def test_a_group_left_out_scores_as_a_refit_without_it(name, data):
    rows = data.draw(some_rows)
    ties = data.draw(st.sampled_from(["order", "strict"]))
    interactions = read(rows)
    strategy = data.draw(st.sampled_from(["dense", "bounded", "on-demand"]))
    statistics = sr.count_precedence(interactions, ties=ties, strategy=strategy)
    people = st.integers(0, interactions.n_users - 1)
    group = data.draw(st.lists(people, min_size=1, max_size=4, unique=True))
    items = st.integers(0, interactions.n_items - 1)
    history = np.array(data.draw(st.lists(items, min_size=1, unique=True)))
    others = sr.count_precedence(interactions.without_users(np.array(group)), ties=ties)
    others.n_users -= len(group)  # who is left out stays in the map of users
    top = data.draw(st.sampled_from([1, 3]))
    scorers = [MeasureScorer(counts, name, top=top) for counts in (statistics, others)]
    left_out = scorers[0].score_query(Query(history, tuple(group)))
    np.testing.assert_array_equal(left_out, scorers[1].score_query(Query(history)))
