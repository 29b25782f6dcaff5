"""People of whom ridges are asked what they expect."""

import numpy as np

from surerec.measures.learned._ridge import Expected


def some_people(films, chance, n_people):
    """People with all of their profile, a part of it, or what nobody took; some are nobody."""
    for user in chance.integers(0, films.n_users, n_people).tolist():
        profile = films.taken(user).astype(np.int64)
        choices = profile, profile[: 1 + len(profile) // 2], chance.permutation(50)[:9]
        history = choices[chance.integers(3)]
        weights = chance.random((4, len(history)))
        weights[0] = 1.0
        yield Expected(history, weights, [profile][: chance.integers(2)])
