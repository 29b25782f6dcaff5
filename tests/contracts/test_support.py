"""The support page says what the code does."""

import re

import pytest

from tests.contracts.support import PAGE, SURFACES, YES, ask, cases

CASES = {(case.scorer, case.guarantee): case for case in cases()}
ROWS = [
    line.strip("|").split("|")
    for line in PAGE.read_text().splitlines()
    if line.startswith("|") and not line.startswith(("|---", "|Scorer"))
]
REASONS = dict(re.findall(r'^\d+\. <a id="r(\d+)"></a>(.*)$', PAGE.read_text(), re.MULTILINE))
QUICK = [
    ("the 17 measures (CM12)", "recall"),
    ("the 17 measures (CM12)", "recall, temporal split"),
    ("wrapped item–item weights", "hit"),
    ("wrapped function", "precision"),
    ("wrapped class, fitted here", "recall, temporal split"),
    ("wrapped factors (matrix factorisation)", "recall by segment"),
    ("CRS (precedence scores)", "item"),
]


def test_the_page_has_a_row_for_every_case():
    assert [(row[0], row[1]) for row in ROWS] == list(CASES)
    assert {len(row) for row in ROWS} == {2 + len(SURFACES)}


@pytest.mark.parametrize("name", QUICK, ids=", ".join)
def test_what_the_page_says_of_a_row_is_so(name):
    (row,) = (row for row in ROWS if (row[0], row[1]) == name)
    for surface, cell in zip(SURFACES, row[2:], strict=True):
        if surface != "audit":  # seconds each, and in the contracts
            number = re.fullmatch(r"\[(\d+)\]\(#r\d+\)", cell)
            assert ask(CASES[name], surface) == (REASONS[number[1]] if number else YES)
