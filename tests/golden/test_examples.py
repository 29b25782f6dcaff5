"""The numbers that the paper prints, from the oracle and from surerec (examples 3, 4 and 5)."""

from fractions import Fraction
from math import exp

import pytest

import surerec as sr
from surerec.measures import MeasureScorer
from tests import oracle_method as paper

# Example 3: thirty users, ten items o1 … o10, which are the codes 0 … 9.
COUNTS = [
    [0, 9, 8, 11, 7, 8, 6, 7, 7, 3],
    [8, 0, 10, 11, 9, 7, 7, 6, 8, 4],
    [8, 8, 0, 5, 7, 6, 5, 6, 4, 3],
    [5, 11, 12, 0, 6, 8, 6, 6, 3, 2],
    [7, 9, 7, 13, 0, 8, 7, 6, 9, 4],
    [5, 9, 6, 8, 6, 0, 5, 6, 4, 1],
    [4, 6, 5, 7, 5, 5, 0, 4, 4, 1],
    [4, 8, 6, 10, 8, 6, 5, 0, 7, 2],
    [7, 11, 10, 16, 7, 7, 6, 5, 0, 3],
    [2, 1, 0, 2, 1, 2, 1, 3, 1, 0],
]
SUPPORT = [20, 25, 21, 25, 22, 18, 15, 18, 20, 6]
o1, o2, o3, o4, o5, o6, o7, o8, o9, o10 = range(10)
PROFILE = [o1, o3, o5, o7, o9]
TRAIN = [o1, o3, o5]

ORACLE = paper.given(COUNTS, SUPPORT, 30)


@pytest.fixture(scope="module")
def statistics():
    return sr.PrecedenceStatistics.from_counts(COUNTS, SUPPORT, n_users=30)


def p_values(model, history):
    frame = model.p_values(history=history)
    return dict(zip(frame["item_id"], frame["p_value"], strict=True))


EXAMPLE_3 = {o2: 0.0036, o4: 0.0068, o6: 0.0043, o8: 0.0016, o10: 0.0028}


def test_example_3_by_the_oracle_and_by_precedence_mining(statistics):
    oracle = {item: round(float(paper.score(ORACLE, PROFILE, item)), 4) for item in EXAMPLE_3}
    assert oracle == EXAMPLE_3
    picks = sr.PrecedenceMining().fit(statistics).recommend(history=PROFILE).to_frame()
    scores = {item: round(exp(score), 4) for item, score in picks["item_id", "score"].iter_rows()}
    assert scores == EXAMPLE_3
    assert picks["item_id"].to_list() == [o4, o6, o2, o10, o8]
    assert picks["rank"].to_list() == [1, 2, 3, 4, 5]


def test_example_4_by_the_oracle():
    # In the order o1, o3, o5, o2. The paper prints 0.036, 0.043 (0.04356, cut off), 0.031, 0.031.
    alphas = paper.alphas(ORACLE, TRAIN, o2, o7)
    assert [round(float(alpha), 5) for alpha in alphas] == [0.0363, 0.04356, 0.03111, 0.03111]
    assert alphas[2] == alphas[3] == Fraction(15, 30) * Fraction(6 * 5 * 7, 15**3)
    assert paper.crs_by_product(ORACLE, TRAIN, o2, o7) == Fraction(4, 4)
    assert paper.crs_by_product(ORACLE, TRAIN, o2, o9) == Fraction(3, 4)
    assert paper.crs(ORACLE, PROFILE, o2, aggregate="max") == 1
    assert paper.crs(ORACLE, PROFILE, o2, aggregate="median") == Fraction(7, 8)


@pytest.mark.parametrize("zeros", ["exact", "product"])
def test_example_4_by_transductive_conformal(statistics, zeros):
    one_witness = sr.TransductiveConformal(train_share=0.75, zeros=zeros).fit(statistics)
    assert p_values(one_witness, [*TRAIN, o7])[o2] == 1
    assert p_values(one_witness, [*TRAIN, o9])[o2] == 0.75
    # Not printed, but worked out in a comment of the paper's source.
    of_o7 = p_values(one_witness, [*TRAIN, o7])
    assert [of_o7[item] for item in (o4, o6, o8, o9, o10)] == [0.75, 0.5, 0.5, 0.75, 0.25]

    crs_max = sr.TransductiveConformal(aggregate="max", zeros=zeros).fit(statistics)
    crs_med = sr.TransductiveConformal(aggregate="median", zeros=zeros).fit(statistics)
    assert p_values(crs_max, PROFILE)[o2] == 1
    assert p_values(crs_med, PROFILE)[o2] == 0.875


EXAMPLE_5 = {o7: 0.23, o9: 0.3, o2: 0.3}


def test_example_5_by_the_oracle():
    values = {item: paper.measure(ORACLE, "CM1", TRAIN, item) for item in EXAMPLE_5}
    assert values == {o7: Fraction(7, 30), o9: Fraction(9, 30), o2: Fraction(9, 30)}
    assert paper.icrs(ORACLE, "CM1", PROFILE, o2) == Fraction(3, 3)


def test_example_5_by_the_measure(statistics):
    scorer = MeasureScorer(statistics, "CM1")
    values = scorer.paper_value(scorer.score(TRAIN), 3, 30)
    assert {item: round(float(values[item]), 2) for item in EXAMPLE_5} == EXAMPLE_5


def test_example_5_by_inductive_conformal(statistics):
    model = sr.InductiveConformal(measure="CM1").fit(statistics)
    assert p_values(model, PROFILE)[o2] == 1
    # CM1 of o7, o9 is 7/30, 9/30; of the others: o4 13/30, o6 8/30, o8 7/30, o10 4/30.
    third = 1 / 3
    assert p_values(model, PROFILE) == {o2: 1, o4: 1, o6: 2 * third, o8: 2 * third, o10: third}


# What every measure makes of o2 in example 5, by hand: T = {o1, o3, o5}, Sup = 20, 21, 22,
# PC(i, o2) = 9, 8, 9 and PC(o2, i) = 8, 10, 9.
BY_HAND = {
    "CM1": Fraction(9, 30),
    "CM2": 8,
    "CM3": 9,
    "CM4": Fraction(26, 3),
    "CM5": 9,
    "CM6": Fraction(8, 21),
    "CM7": Fraction(9, 22),
    "CM8": (Fraction(9, 20) + Fraction(8, 21) + Fraction(9, 22)) / 3,
    "CM9": Fraction(9, 20),
    "CM10": Fraction(9, 22 - 9),
    "CM11": Fraction(8, 21 - 10),
    "CM12": (Fraction(9, 12) + Fraction(8, 11) + Fraction(9, 13)) / 3,
    "CM13": Fraction(9, 20 - 8),
    "NCM14": Fraction(20 - 9, 30),
    "NCM15": Fraction(21 - 8, 30),
    "NCM16": Fraction(11 + 13 + 13, 90),
    "NCM17": Fraction(22 - 9, 30),
}
BY_HAND_LITERALLY = {  # PC(o2, i) / Sup(i)
    "CM6": Fraction(8, 20),
    "CM7": Fraction(9, 22),
    "CM8": (Fraction(8, 20) + Fraction(10, 21) + Fraction(9, 22)) / 3,
    "CM9": Fraction(10, 21),
}
READINGS = [
    *((name, False, value) for name, value in BY_HAND.items()),
    *((name, True, value) for name, value in BY_HAND_LITERALLY.items()),
]


@pytest.mark.parametrize(("name", "literal", "value"), READINGS)
def test_every_measure_worked_out_by_hand(statistics, name, literal, value):
    assert paper.measure(ORACLE, name, TRAIN, o2, literal=literal) == value
    scorer = MeasureScorer(statistics, name, literal=literal)
    values = scorer.paper_value(scorer.score(TRAIN), len(TRAIN), 30)
    assert values[o2] == pytest.approx(float(value), rel=1e-14)
