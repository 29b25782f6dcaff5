"""How hard the events that alarms watch are when nothing has changed: those before a recount."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np

from surerec._threads import run_blocks
from surerec.live._ledger import is_first_of_day
from surerec.live._served import lives_on
from surerec.measures import Query

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.recommenders import PopulationConformal

_MOST: Final = 2000  # events


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
    assert profiles is not None  # noqa: S101  # it was fitted on profiles
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

    with lives_on():
        return np.array(list(run_blocks(level, places.tolist())), dtype=np.float64)
