"""Contract tests for custom scorers and recommenders.

All recommenders of surerec pass them with all kinds of scorers. Run them on your own scorer:

>>> import numpy as np
>>> from surerec.testing import check_scorer
>>> class Popular:
...     leaves_users_out = True
...     def __init__(self, statistics):
...         self.statistics = statistics
...     def score(self, history, *, without_user=None):
...         support = self.statistics.support.astype(float)
...         support[self.statistics.consumed_by(without_user)[0]] -= 1
...         return support
>>> check_scorer(Popular, only=["known user", "new history", "sets are nested"])
"""

from surerec.testing._answers import ModelUnderTest
from surerec.testing._checks import (
    CHECKS,
    check_leaves_users_out,
    check_recommender,
    check_scorer,
)

__all__ = [
    "CHECKS",
    "ModelUnderTest",
    "check_leaves_users_out",
    "check_recommender",
    "check_scorer",
]
