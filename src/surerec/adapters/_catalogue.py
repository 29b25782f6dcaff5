"""What a model was fitted on, as statistics by code: its catalogue, and everybody's profiles."""

from __future__ import annotations

from copy import copy
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec.interactions import IdMap
from surerec.precedence import without_counts

if TYPE_CHECKING:
    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics


def on_catalogue(
    data: Interactions, fitted: Interactions, items: IdMap | None = None
) -> PrecedenceStatistics:
    """Give profiles on the catalogue of a model, with the support of what it was fitted on.

    Codes follow the popularity in what it was fitted on, and nothing else: whose scores tie is told
    apart by it, and a calibration user's future must have no part in that.

    Parameters
    ----------
    data : Interactions
        Everybody's profiles as they are known; items outside the catalogue are left out of them.
    fitted : Interactions
        What the model was fitted on, under the same codes.
    items : IdMap, optional
        The catalogue; by default what somebody took in what it was fitted on.

    Examples
    --------
    >>> from surerec import Interactions
    >>> data = Interactions.from_profiles([0, 2, 3], [1, 0, 1], item_ids=["a", "b"])
    >>> found = on_catalogue(data, data.without_users(np.array([0])))
    >>> found.interactions.items.ids.to_list(), found.support.tolist(), found.interactions
    (['b'], [1], Interactions(2 users, 1 items, 2 rows))
    """
    support = np.bincount(fitted.items_taken, minlength=data.n_items)
    if items is None:
        order = np.argsort(-support, kind="stable")[: np.count_nonzero(support)]
        ids, taken = data.items.ids.gather(order), support[order]
        codes = np.full(data.n_items, -1)
        codes[order] = np.arange(len(order))
    else:
        places = items.codes(data.items.ids)
        of_item = np.zeros(len(items), dtype=np.int64)
        of_item[places[places >= 0]] = support[places >= 0]
        order = np.argsort(-of_item, kind="stable")
        ids, taken = items.ids.gather(order), of_item[order]
        new = np.empty(len(order), dtype=np.int64)
        new[order] = np.arange(len(order))
        codes = np.where(places >= 0, new[places], -1) if len(order) else np.full(data.n_items, -1)
    return without_counts(_recoded(data, ids, codes), taken)


def _recoded(data: Interactions, ids: pl.Series, codes: NDArray[np.int64]) -> Interactions:
    rows = codes[data.items_taken]
    kept = rows >= 0
    found = copy(data)  # with its users and its name
    found.items = IdMap(ids, noun="item")
    found.offsets = np.concatenate(([0], np.cumsum(kept)))[data.offsets]
    found.items_taken = rows[kept].astype(np.uint32)
    found.times = data.times[kept]
    places = np.full(len(ids), data.n_items)  # beyond the last: nothing is known
    places[codes[codes >= 0]] = np.flatnonzero(codes >= 0)
    found.titles = _moved(data.titles, places)
    found.genres = _moved(data.genres, places)
    return found


def _moved(texts: pl.Series | None, places: NDArray[np.int64]) -> pl.Series | None:
    if texts is None:
        return None
    return pl.concat([texts, pl.Series([None], dtype=pl.String)]).gather(places)
