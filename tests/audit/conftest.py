import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit


@pytest.fixture(scope="session")
def exchangeable():
    """Profiles of 64 items in random order: 19 calibrate, so that every ε is attained exactly."""
    return sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0, sequels=0, drift=0, seed=2
    )


@pytest.fixture(scope="session")
def drifting():
    """People who take what is popular first, and what is rare later, as on MovieLens."""
    made = sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0.5, drift=0.5, seed=2
    )
    rng = np.random.default_rng(2)
    items = made.items_taken.astype(np.int64)  # the most popular item is 0
    owners = np.repeat(np.arange(made.n_users), np.diff(made.offsets))
    order = np.lexsort((items + rng.normal(0, 60, len(items)), owners))
    return sr.Interactions.from_profiles(made.offsets, items[order], made.times, name="drifting")


@pytest.fixture(scope="session")
def calm(exchangeable):
    return audit(exchangeable, n_users=400)


@pytest.fixture(scope="session")
def moved(drifting):
    return audit(drifting, n_users=400)
