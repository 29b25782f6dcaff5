"""The support page says what the code does."""

import re

import pytest

from tests.contracts.support import PAGE, SURFACES, YES, ask, cases

CASES = {(case.scorer, case.guarantee): case for case in cases()}
LINES = [line[1:-1].split("|") for line in PAGE.read_text().splitlines() if line[:1] == "|"][2:]
ROWS = {(scorer, each): cells for scorer, some, *cells in LINES for each in some.split("; ")}
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
    assert set(ROWS) == set(CASES)
    assert {len(cells) for cells in ROWS.values()} == {len(SURFACES)}


@pytest.mark.parametrize("name", QUICK, ids=", ".join)
def test_what_the_page_says_of_a_row_is_so(name):
    for surface, cell in zip(SURFACES, ROWS[name], strict=True):
        if surface != "audit":  # seconds each, and in the contracts
            number = re.fullmatch(r"\[(\d+)\]\(#r\d+\)", cell)
            assert ask(CASES[name], surface) == (REASONS[number[1]] if number else YES)
