"""A short run of random calls; what once failed is in the tests of each room."""

from fuzz import calls


def test_random_calls_answer_or_refuse_in_a_sentence():
    tally = calls.run(400, seed=3)
    assert not tally.failures, tally.examples
    assert tally.answered > 50
    assert tally.refused > 50
