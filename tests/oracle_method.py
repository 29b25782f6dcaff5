"""The paper's method in exact arithmetic, one plain line per formula: what surerec must agree with.

Written from the paper and docs/explanation/paper.md alone. ``i`` is an item of the history, ``h``
the item judged; ``PC[i, h]`` users consumed i before h.
"""

from collections import Counter
from fractions import Fraction
from math import ceil, prod
from statistics import median
from typing import NamedTuple

from tests import oracle

COUNTED = ["CM1", "CM2", "CM3", "CM4", "CM5", "NCM14", "NCM15", "NCM16", "NCM17"]
RATIOS = ["CM6", "CM7", "CM8", "CM9", "CM10", "CM11", "CM12", "CM13"]
NAMES = [*COUNTED[:5], *RATIOS, *COUNTED[5:]]
LITERAL_TOO = ["CM6", "CM7", "CM8", "CM9"]


class Counts(NamedTuple):
    n_users: int
    sup: Counter
    pc: Counter


def count(rows, without=None, ties="order"):
    """Count rows (user, item, time), as if one user had never been there."""
    users = oracle.profiles([row for row in rows if row[0] != without])
    return Counts(len(users), oracle.support(users), oracle.precedence(users, ties))


def given(matrix, support, n_users):
    pairs = {(i, h): n for i, row in enumerate(matrix) for h, n in enumerate(row)}
    return Counts(n_users, Counter(dict(enumerate(support))), Counter(pairs))


# -- numbers: exact, or as float64 makes them --------------------------------------------------


def exact(above, below):
    return Fraction(above, below) if below else Fraction(0)  # paper.md 11 and 12


def floating(above, below):
    return above / below if below else 0.0  # paper.md 17: one float64 division


def total(values):
    """Sum from left to right: Python's own sum() is cleverer than float64 since 3.12."""
    result = 0
    for value in values:
        result = result + value
    return result


def mean(values):
    return total(values) / len(values)


# -- the 17 measures ----------------------------------------------------------------------------


def taken_later(counts, i, h):
    return counts.pc[i, h], 1


def share_taken_later(counts, i, h):
    return counts.pc[i, h], counts.sup[i]


def share_taken_earlier(counts, i, h):
    return counts.pc[h, i], counts.sup[i]  # Eq. 1 to the letter (paper.md 1)


def share_of_the_free(counts, i, h):
    return counts.pc[i, h], counts.sup[i] - counts.pc[h, i]


def not_taken_later(counts, i, h):
    return counts.sup[i] - counts.pc[i, h], counts.n_users


STATISTICS = [taken_later, share_taken_later, share_of_the_free, not_taken_later]
AGGREGATES = [min, median, mean, max]
TABLE = {  # CM2 … NCM17: four statistics, each with min, median, mean, max
    name: (STATISTICS[place // 4], AGGREGATES[place % 4]) for place, name in enumerate(NAMES[1:])
}


def score(counts, history, h, top=None):
    """Eq. 2: Support(h) / n_u times the (largest) precedence probabilities PP(l | h)."""
    best_first = sorted((exact(counts.pc[i, h], counts.sup[h]) for i in history), reverse=True)
    return exact(counts.sup[h], counts.n_users) * prod(best_first[:top])


def shares(counts, name, history, h, divide, *, literal):
    statistic = share_taken_earlier if literal else TABLE[name][0]
    return [divide(*statistic(counts, i, h)) for i in history]


def measure(counts, name, history, h, *, top=1, literal=False):
    """Give the paper's number as a Fraction; nonconformity is positive."""
    if name == "CM1":
        return score(counts, history, h, top)
    aggregate = TABLE[name][1]
    return aggregate(shares(counts, name, history, h, exact, literal=literal))


def float_key(counts, name, history, h, *, literal=False):
    """CM6–13 as float64 compares them (paper.md 17): a mean stands as its sum, in profile order."""
    aggregate = TABLE[name][1]
    values = shares(counts, name, history, h, floating, literal=literal)
    return total(values) if aggregate is mean else aggregate(values)


def is_nonconformity(name):
    return name.startswith("NCM")


# -- p-values and sets --------------------------------------------------------------------------


def p_value(calibration, new, *, nonconformity=False):
    """Eq. p1 and Eq. p2, literally: the new item is among those counted."""
    everyone = [*calibration, new]
    worse = [a for a in everyone if (a >= new if nonconformity else a <= new)]
    return Fraction(len(worse), len(everyone))


def split(history, share="0.5"):
    """paper.md 8: m = ⌈share · n⌉ items to train, the rest to calibrate."""
    m = ceil(Fraction(share) * len(history))
    return history[:m], history[m:]


def known(history, catalogue):
    """Each item once, where it first came; items nobody has seen are left out."""
    return [item for item in dict.fromkeys(history) if item in catalogue]


def icrs(counts, name, history, h, *, share="0.5", floats=False, **reading):
    train, calibration = split(history, share)
    judge = float_key if floats else measure
    alphas = [judge(counts, name, train, c, **reading) for c in calibration]
    new = judge(counts, name, train, h, **reading)
    return p_value(alphas, new, nonconformity=is_nonconformity(name))


# -- the transductive predecessors --------------------------------------------------------------


def alphas(counts, train, new, c):
    """Definition 1: Score of c when the profile is T and the new item without each h in turn."""
    everyone = [*train, new]
    return [score(counts, [o for o in everyone if o != h], c) for h in everyone]


def crs_by_product(counts, train, new, c):
    *others, own = alphas(counts, train, new, c)
    return p_value(others, own, nonconformity=True)


def crs_by_search(counts, train, new, c):
    """paper.md 9: 1 + #{h in T : PP(h|c) ≤ PP(o|c)}, over m + 1."""
    known_ones = [exact(counts.pc[h, c], counts.sup[c]) for h in train]
    return p_value(known_ones, exact(counts.pc[new, c], counts.sup[c]))


def crs(counts, history, new, *, aggregate="max", zeros="exact", share="0.5"):
    """CRS-max and CRS-med; a c that nobody else took says nothing, and is skipped."""
    train, calibration = split(history, share)
    one = crs_by_search if zeros == "exact" else crs_by_product
    values = [one(counts, train, new, c) for c in calibration if counts.sup[c]]
    if not values:  # nothing speaks against the item
        return Fraction(1)
    return max(values) if aggregate == "max" else median(values)
