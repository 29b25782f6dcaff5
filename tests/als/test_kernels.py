"""The kernels against numpy's slow and obvious ways."""

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.measures.als import _kernels as kernels


@st.composite
def folded(draw):
    """Factors with items that nobody took, a history, and how they are held back."""
    n_factors, n_items = draw(st.integers(1, 7)), draw(st.integers(1, 2200))
    random = np.random.default_rng(draw(st.integers(0, 2**32)))
    items = random.normal(0, 0.3, (n_factors, n_items)).astype(np.float32)
    items[:, random.random(n_items) < 0.2] = 0.0
    history = random.permutation(n_items)[: draw(st.integers(0, 12))]
    return items, history, draw(st.floats(0.01, 50)), draw(st.floats(0, 40))


def slow_person(items, history, regularization, alpha):
    """Hu, Koren and Volinsky's Eq. 4, with all the matrices that it names."""
    wide = items.T.astype(np.float64)
    taken = np.zeros(len(wide))
    taken[history] = 1.0
    confidence = np.diag(1 + alpha * taken)
    left = wide.T @ confidence @ wide + regularization * np.eye(wide.shape[1])
    return np.linalg.solve(left, wide.T @ confidence @ taken)


def gram_of(items):
    wide = items.astype(np.float64)
    return wide @ wide.T


@given(folded())
def test_a_person_solves_the_equation(drawn):
    items, history, regularization, alpha = drawn
    if items.shape[1] > 400:  # the slow way has a matrix of items × items
        items, history = np.ascontiguousarray(items[:, :400]), history[history < 400]
    person = np.empty(len(items))
    taken = np.ascontiguousarray(items[:, history].T)
    assert kernels.fold_in(taken, gram_of(items), regularization, alpha, person)
    expected = slow_person(items, history, regularization, alpha)
    np.testing.assert_allclose(person, expected, rtol=1e-6, atol=1e-9)


@given(folded())
def test_scores_are_products_and_equal_items_tie_to_the_last_bit(drawn):
    items, history, *_ = drawn
    items[:, -1] = items[:, 0]
    person = np.random.default_rng(len(history)).normal(size=len(items))
    scores = np.empty(items.shape[1])
    kernels.score_items(items, person, scores)
    np.testing.assert_allclose(scores, person @ items.astype(np.float64), rtol=1e-9, atol=1e-12)
    assert scores[0] == scores[-1]


@given(st.integers(1, 9), st.integers(0, 2**32))
def test_the_factor_is_that_of_cholesky(n, seed):
    root = np.random.default_rng(seed).normal(size=(n, n + 2))
    matrix = root @ root.T + 0.1 * np.eye(n)
    found = matrix.copy()
    assert kernels.factor(found)
    np.testing.assert_allclose(np.tril(found), np.linalg.cholesky(matrix), rtol=1e-7, atol=1e-9)
    right = np.arange(1.0, n + 1)
    expected = np.linalg.solve(matrix, right)
    kernels.solve(found, right)
    np.testing.assert_allclose(right, expected, rtol=1e-6, atol=1e-9)


@pytest.mark.parametrize("wrong", [np.nan, -1.0, 0.0])
def test_what_has_no_factor_is_told(wrong):
    matrix = np.eye(3)
    matrix[1, 1] = wrong
    assert not kernels.factor(matrix)
