import numpy as np
import pytest

import surerec as sr
from surerec.audit import audit


@pytest.fixture(scope="package")
def exchangeable():
    """Histories of 64 items in random order: 19 calibrate, so that every ε is attained exactly."""
    return sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0, sequels=0, random_state=2
    )


@pytest.fixture(scope="package")
def drifting():
    """Users who consume popular items first and rare items later, as on MovieLens."""
    made = sr.datasets.synthetic(
        n_users=400, n_items=200, n_rows=400 * 64, length_spread=0.5, drift=0.5, random_state=2
    )
    rng = np.random.default_rng(2)
    items = made.item_codes.astype(np.int64)  # the most popular item is 0
    owners = np.repeat(np.arange(made.n_users), np.diff(made.offsets))
    order = np.lexsort((items + rng.normal(0, 60, len(items)), owners))
    return sr.Interactions.from_profiles(made.offsets, items[order], made.times, name="drifting")


@pytest.fixture(scope="package")
def drifted(drifting):
    return audit(drifting, n_users=400)
