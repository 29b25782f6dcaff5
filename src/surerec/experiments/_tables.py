"""The tables that a run of the experiments makes."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    import polars as pl


@dataclass(frozen=True)
class Results:
    """The tables of a run; each has a column ``dataset`` in front, but for `growth`."""

    datasets: pl.DataFrame
    """title, users, items, rows, origin, and the paper's Table 1 beside them."""
    metrics: pl.DataFrame
    """split, algorithm, metric, mean, standard_error, n_users."""
    curves: pl.DataFrame
    """split, algorithm, k, precision, recall, f1."""
    validity: pl.DataFrame
    """split, algorithm, epsilon, validity_error, standard_error, efficiency_error, set_size, …."""
    times: pl.DataFrame | None
    """algorithm, median_ms, p90_ms, n_users."""
    growth: pl.DataFrame | None
    """algorithm, variable, value, milliseconds, slope."""
    tuning: pl.DataFrame | None
    """sweep, algorithm, top, training, calibration, ap, ap_error, auc, auc_error, n_users."""
    extra: pl.DataFrame | None = None
    """As `metrics`, of the measures outside the paper that were asked for."""
    extra_validity: pl.DataFrame | None = None
    """As `validity`, of the same."""
