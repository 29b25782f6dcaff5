"""Groups of users to calibrate on, formed from what is known of them and nothing later."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final, Literal, TypeAlias

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.calibration import Cases

Formed: TypeAlias = Literal["random", "similar", "given"]
"""How groups were formed."""

FORMED: Final = ("random", "similar")
"""How surerec forms groups by itself."""


def form_groups(
    cases: Cases, size: int, formed: str, folds: NDArray[np.int64], seed: int
) -> list[NDArray[np.int64]]:
    """Divide cases into disjoint groups of one size, once over all of them.

    Who is left over, fewer than `size` in each fold, is in no group.

    Parameters
    ----------
    cases : Cases
        People with what is known of them. Their futures are not looked at.
    size : int
        How many members.
    formed : {"random", "similar"}
        At random; or around people drawn at random the most similar of those who are left, by the
        cosine of what is known of them.
    folds : array of int
        The fold of each case: groups lie within one, as nobody else can be left out together.
    seed : int
        Of the draw.

    Returns
    -------
    list of arrays of int
        The places of the members among the cases.
    """
    chance = np.random.default_rng((seed, size))
    groups: list[NDArray[np.int64]] = []
    for fold in np.unique(folds):
        some = chance.permutation(np.flatnonzero(folds == fold))
        if formed == "random":
            whole = some[: len(some) // size * size]
            groups += list(whole.reshape(-1, size))
        else:
            groups += _similar(cases, some, size)
    return groups


def _similar(cases: Cases, some: NDArray[np.int64], size: int) -> list[NDArray[np.int64]]:
    taken = _profiles(cases, some)
    lengths = np.sqrt(np.maximum(np.asarray(taken.sum(axis=1)).ravel(), 1))
    transposed = taken.T.tocsc()
    free = np.ones(len(some), dtype=bool)
    groups = []
    for first in range(len(some)):
        if not free[first] or free.sum() < size:
            continue
        free[first] = False
        alike = np.asarray((taken[first] @ transposed).todense()).ravel() / lengths
        alike[~free] = -1.0
        near = np.argsort(-alike, kind="stable")[: size - 1]
        free[near] = False
        groups.append(some[np.concatenate(([first], near))])
    return groups


def _profiles(cases: Cases, some: NDArray[np.int64]) -> Any:
    """Give what is known of some cases as a sparse matrix of zeros and ones."""
    from scipy import sparse  # noqa: PLC0415  # slow to import, and seldom needed

    known = [cases.known(int(case)) for case in some]
    ends = np.concatenate(([0], np.cumsum([len(items) for items in known])))
    items = np.concatenate(known)
    shape = (len(some), cases.interactions.n_items)
    return sparse.csr_matrix((np.ones(len(items)), items, ends), shape=shape)
