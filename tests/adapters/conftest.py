import numpy as np
import pytest

import surerec as sr
from surerec.calibration import profile_cases


@pytest.fixture(scope="session")
def films():
    return sr.datasets.synthetic(n_users=400, n_items=80, n_rows=9_000, random_state=1)


@pytest.fixture(scope="session")
def halves(films):
    """Return the past of all users, and the last 40% of each profile."""
    later = profile_cases(films, 0.4).future_rows()
    return films.keeping(~later), films.keeping(later)


@pytest.fixture(scope="session")
def many():
    """Return more users, and a quarter of them to test on the last 40% of their profiles."""
    films = sr.datasets.synthetic(n_users=900, n_items=100, n_rows=22_000, random_state=5)
    cases = profile_cases(films, 0.4)
    return films, cases[np.random.default_rng(1).permutation(len(cases))[: len(cases) // 4]]


@pytest.fixture(scope="session")
def matrix(halves):
    """Return the past as a matrix of users × items for implicit, in another order of items."""
    from scipy.sparse import csr_matrix  # noqa: PLC0415

    past = halves[0]
    owners = np.repeat(np.arange(past.n_users), np.diff(past.offsets))
    columns = np.random.default_rng(3).permutation(past.n_items)
    ones = np.ones(past.n_rows, dtype=np.float32)
    found = csr_matrix((ones, (owners, columns[past.item_codes])), (past.n_users, past.n_items))
    return found, past.items.ids.gather(np.argsort(columns)).to_list(), past.users.ids.to_list()
