"""A known profile, split in time order."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from surerec._arguments import check_number

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray


def split(
    history: NDArray[np.int64], train_share: float
) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Give the proper training items, ⌈share · n⌉ and at least one, and the calibration items.

    Examples
    --------
    >>> import numpy as np
    >>> split(np.arange(5), 0.5)
    (array([0, 1, 2]), array([3, 4]))
    """
    n_training = training_size(len(history), train_share)
    return history[:n_training], history[n_training:]


def training_size(n_items: int, train_share: float) -> int:
    """Give ⌈share · n⌉, and at least one."""
    # Rounded first: 0.1 · 30 is a little more than 3 in floats.
    return max(1, math.ceil(round(train_share * n_items, 9)))


def check_share(train_share: float) -> None:
    """Refuse a share outside (0, 1)."""
    check_number("train_share", train_share, 0, 1, "between 0 and 1")
