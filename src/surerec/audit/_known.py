"""What data are like, in the sentences of an audit."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

if TYPE_CHECKING:
    from surerec.interactions import Interactions


def known_of(interactions: Interactions) -> list[str]:
    """Give what data are like, in sentences.

    Examples
    --------
    >>> import surerec as sr
    >>> shop = sr.Interactions.from_profiles([0, 3, 5], [1, 0, 2, 0, 1])
    >>> known_of(shop)[0]
    '2 users took 3 items, 5 interactions in all; profiles have 2 to 3 items, 2.5 in the median.'
    """
    lengths = np.diff(interactions.offsets)
    days = interactions.times.astype("datetime64[us]").astype("datetime64[D]")
    ties = interactions.tie_share
    counted = (
        f"{interactions.n_users:,} users took {interactions.n_items:,} items, "
        f"{interactions.n_rows:,} interactions in all; profiles have {lengths.min():,} to "
        f"{lengths.max():,} items, {np.median(lengths):,.4g} in the median."
    )
    tied = "no two of a user's items share their instant."
    if ties:
        tied = f"{ties:.0%} of a user's items share their instant, and stand in the file's order."
    read = interactions.rows_read
    again = f"{read.about_repeats()}." if read.repeats else "Nobody took an item twice."
    return [counted, f"They took them from {days.min()} to {days.max()}; {tied}", again]
