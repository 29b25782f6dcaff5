"""implicit, asked for only where factors are trained."""

from __future__ import annotations

from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

import numpy as np

from surerec._threads import available_threads
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

    from surerec.interactions import Interactions
    from surerec.measures.als._settings import AlsSettings


def _implicit() -> tuple[Any, Any]:
    try:
        import threadpoolctl  # noqa: PLC0415  # comes with implicit
        from implicit.cpu.als import (  # noqa: PLC0415  # an extra, and slow to import
            AlternatingLeastSquares,
        )
    except ImportError as error:
        raise InputError(
            "Training the measure 'als' needs implicit, which is not installed: "
            "pip install 'surerec[als]'."
        ) from error
    return AlternatingLeastSquares, threadpoolctl


def check_can_train() -> None:
    """Refuse before any work where implicit is not installed."""
    _implicit()


def train_items(
    profiles: Interactions, settings: AlsSettings, fold: int, advance: Callable[[float], None]
) -> NDArray[np.float32]:
    """Give the factors of every item, a column each, learned from these profiles alone."""
    from scipy import sparse  # noqa: PLC0415  # slow to import, and not needed by other measures

    alternating, threadpoolctl = _implicit()
    ones = np.ones(profiles.n_rows, dtype=np.float32)
    taken = sparse.csr_matrix(
        (ones, profiles.items_taken.astype(np.int32), profiles.offsets),
        shape=(profiles.n_users, profiles.n_items),
    )
    with ExitStack() as held:
        # One thread of BLAS sums in one order; implicit's own threads solve whole rows, so that
        # their number changes nothing.
        held.enter_context(threadpoolctl.threadpool_limits(1, "blas"))
        model = alternating(
            factors=settings.factors,
            regularization=settings.regularization,
            alpha=1.0 + settings.alpha,  # implicit's is the whole weight of what was taken
            iterations=settings.iterations,
            num_threads=available_threads(),
            random_state=np.random.default_rng((settings.seed, fold)),
        )
        model.fit(taken, show_progress=False, callback=lambda *_: advance(1))
    return np.ascontiguousarray(model.item_factors.T, dtype=np.float32)
