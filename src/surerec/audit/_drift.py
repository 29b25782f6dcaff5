"""Does what people take later conform as what they took before? Tests on p-values."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
from scipy import stats

from surerec._arguments import check_numbers
from surerec.audit._kernels import simple_jumper
from surerec.errors import InputError

if TYPE_CHECKING:
    from numpy.typing import ArrayLike, NDArray

    from surerec.audit._items import PValues


ALPHA = 0.01
"""Below this p-value drift is called found."""

_BETS = np.array([-1.0, -0.5, 0.0, 0.5, 1.0])
_JUMPING = 0.01


def log_martingale(p_values: ArrayLike) -> NDArray[np.float64]:
    """Give the logarithm of the Simple Jumper, a conformal test martingale, after each p-value.

    It is the capital of somebody who starts with 1 and bets against uniform p-values, with the
    bets and the jumping rate of ``crepes.martingales.SimpleJumper``. While p-values are uniform
    and independent it ever reaches 1/α with probability at most α (Ville).

    Parameters
    ----------
    p_values : array-like of float
        One after the other.

    Notes
    -----
    Vovk, Gammerman and Shafer, *Algorithmic Learning in a Random World*, 2nd edition, algorithm
    8.1.

    Examples
    --------
    >>> uniform = np.random.default_rng(1).random(2000)
    >>> bool(log_martingale(uniform).max() < np.log(100))
    True
    >>> bool(log_martingale(uniform**2).max() > np.log(1e9))
    True
    """
    values = check_numbers("p_values", p_values)
    if not ((values >= 0) & (values <= 1)).all():
        raise InputError("p_values are not all between 0 and 1.")
    logarithms = np.empty(len(values))
    simple_jumper(values, _BETS, _JUMPING, logarithms)
    return logarithms


def drift_rows(order: str, p_values: PValues, seed: int = 0) -> list[dict[str, Any]]:
    """Test the p-values of one protocol.

    The Kolmogorov–Smirnov tests take one random item of each person: those of one person share
    their calibration items, and are not independent.

    Returns
    -------
    list of dict
        ``order``, ``test``, ``n``, ``statistic``, ``p_value``, ``drift``, ``meaning``.
    """
    rng = np.random.default_rng(seed)
    earlier = _one_each(p_values.earlier, p_values.earlier_owners, rng)
    later = _one_each(p_values.later, p_values.later_owners, rng)
    alike = stats.ks_2samp(earlier, later, method="asymp")
    uniform = stats.kstest(later, "uniform")
    highest = float(max(log_martingale(p_values.online).max(initial=0.0), 0.0))
    # The largest power of ten that a float holds is about 308; the exponent says more.
    bound = float(np.exp(-highest))
    rows = [
        (
            "earlier and later p-values alike (Kolmogorov–Smirnov)",
            len(later),
            float(alike.statistic),
            float(alike.pvalue),
        ),
        (
            "later p-values uniform (Kolmogorov–Smirnov)",
            len(later),
            float(uniform.statistic),
            float(uniform.pvalue),
        ),
        (
            "test martingale, log10 of its maximum",
            len(p_values.online),
            highest / np.log(10),
            bound,
        ),
    ]
    return [_row(order, *row) for row in rows]


def _row(order: str, test: str, n: int, statistic: float, p_value: float) -> dict[str, Any]:
    drift = p_value < ALPHA
    if drift:
        meaning = f"drift: if items were exchangeable, chance {_chance(p_value, statistic, test)}"
    else:
        meaning = f"no drift found: chance {p_value:.2g}"
    return {
        "order": order,
        "test": test,
        "n": n,
        "statistic": statistic,
        "p_value": p_value,
        "drift": drift,
        "meaning": meaning,
    }


def _chance(p_value: float, statistic: float, test: str) -> str:
    if test.startswith("test martingale"):
        return f"at most 1e-{int(statistic)}"
    return f"{p_value:.1e}" if p_value > 0 else "below 1e-300"


def _one_each(
    values: NDArray[np.float64], owners: NDArray[np.int64], rng: np.random.Generator
) -> NDArray[np.float64]:
    """Take one value of each owner at random."""
    order = rng.permutation(len(values))
    _, first = np.unique(owners[order], return_index=True)
    return values[order[first]]
