"""What is usual for a model's own data: how hard watched events are, how much one user sends."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._calendar import DAY
from surerec._threads import run_blocks
from surerec.live._heaviest import ENOUGH, HEAVIEST, LIMITS
from surerec.live._ledger import is_first_of_day
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.recommenders import PopulationConformal

_MOST: Final = 2000  # events
_RARE: Final = 0.99  # of days are less uneven than an unusual one


def usual_levels(model: PopulationConformal, most: int = _MOST) -> NDArray[np.float64]:
    """Give the level of each of the latest events of the model's own profiles that are watched.

    Each is judged as an event is when it comes: by what was known of the person before it, the
    person left out of all that scores them. Only what others took at about that time is known to
    the counts by then; it is why the latest events are taken.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> levels = usual_levels(sr.PopulationConformal("CM12").fit(films), most=100)
    >>> len(levels), bool((levels <= 1).all())
    (100, True)
    """
    counts = model.statistics_
    profiles = counts.interactions
    items, times, offsets = profiles.items_taken, profiles.times, profiles.offsets
    owners = np.repeat(np.arange(profiles.n_users), np.diff(offsets))
    before = np.concatenate((times[:1], times[:-1]))  # of others where nothing is known of somebody
    watched = (np.arange(len(times)) - offsets[owners] >= model.min_known) & np.array(
        is_first_of_day(before, times)
    )
    watched &= counts.support[items] > 1  # else it would have been a new item
    places = np.flatnonzero(watched)
    places = places[np.argsort(-times[places], kind="stable")[:most]]

    def level(place: int) -> float:
        user = int(owners[place])
        known = slice(int(offsets[user]), place)
        query = Query(items[known].astype(np.int64), (user,), times[known])
        return model.model_.level(query, int(items[place]))

    return np.array(list(run_blocks(level, places.tolist())), dtype=np.float64)


def usual_limit(model: PopulationConformal) -> float:
    """Return the share of the heaviest users above which a day is unusual for the model's data.

    99% of the days of the data have a smaller share; it is between 25% and 80%. Only days with
    enough interactions count; without any, it is 80%.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, days=10, seed=1)
    >>> usual_limit(sr.PopulationConformal("CM12").fit(films))
    0.25
    """
    profiles = model.statistics_.interactions
    owners = np.repeat(np.arange(profiles.n_users), np.diff(profiles.offsets))
    pairs = np.stack([profiles.times // DAY, owners])
    (days, _), n = np.unique(pairs, axis=1, return_counts=True)
    by_day = np.split(n, np.flatnonzero(np.diff(days)) + 1)
    shares = [
        np.sort(some)[-math.ceil(HEAVIEST * len(some)) :].sum() / some.sum()
        for some in by_day
        if some.sum() >= ENOUGH
    ]
    return float(np.clip(np.quantile(shares, _RARE), *LIMITS)) if shares else LIMITS[1]
