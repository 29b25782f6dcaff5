"""Small made-up results of a run, in which every number is known."""

import polars as pl

from surerec.evaluation import EPSILONS, METRICS
from surerec.experiments import ALGORITHMS, DataSource, Results, Settings
from surerec.experiments._algorithms import EXTRA
from surerec.experiments._names import family
from surerec.experiments._timing import PLAIN

# The higher, the better: mean and median ahead, minimum behind, plain Precedence Mining last.
STRENGTH = {"mean": 0.20, "median": 0.18, "maximum": 0.15, "minimum": 0.12, "not inductive": 0.16}
ERRORS = {"time": 1.3, "random": 0.9}


def value(algorithm, place=0, strength=STRENGTH):
    if algorithm == ALGORITHMS[0]:
        return 0.05
    if algorithm == EXTRA:
        return 0.17
    if algorithm == "ICRS5":  # as ICRS1, by algebra
        return value("ICRS1", place, strength)
    return strength[family(algorithm)] - 0.0001 * ALGORITHMS.index(algorithm) - 0.01 * place


def metrics_table(names, strength=STRENGTH):
    return pl.DataFrame(
        [
            {
                "dataset": name,
                "split": split,
                "algorithm": algorithm,
                "metric": metric,
                "mean": value(algorithm, place, strength) + 0.001 * METRICS.index(metric),
                "standard_error": 0.0125,
                "n_users": 40,
            }
            for place, name in enumerate(names)
            for split in ERRORS
            for metric in METRICS
            for algorithm in (*ALGORITHMS, EXTRA)
        ]
    )


def validity_table(names, errors=ERRORS):
    """Errors are ε times a factor; minimum measures keep to 0.7 ε with sets twice as large."""
    return pl.DataFrame(
        [
            {
                "dataset": name,
                "split": split,
                "algorithm": algorithm,
                "epsilon": epsilon,
                "validity_error": min(
                    1.0, epsilon * (0.7 if family(algorithm) == "minimum" else factor)
                ),
                "standard_error": 0.004,
                "efficiency_error": 0.6 * (1 - epsilon),
                "set_size": 1000 * (1 - epsilon) * (2 if family(algorithm) == "minimum" else 1),
                "n_users": 40,
            }
            for name in names
            for split, factor in errors.items()
            for algorithm in ALGORITHMS[1:]
            for epsilon in EPSILONS
        ]
    )


def times_table(names, sorted_search=3.0, as_in_paper=9.0, mining=0.5):
    factors = {"CRS-Med": 5.0, "CRS-Max": sorted_search, PLAIN: as_in_paper, ALGORITHMS[0]: mining}
    return pl.DataFrame(
        [
            {
                "dataset": name,
                "algorithm": algorithm,
                "median_ms": 0.4 * factors.get(algorithm, 1.0),
                "p90_ms": 0.8 * factors.get(algorithm, 1.0),
                "n_users": 5,
            }
            for name in names
            for algorithm in (*ALGORITHMS, PLAIN)
        ]
    )


def _curves(names):
    return pl.DataFrame(
        [
            {
                "dataset": name,
                "split": "time",
                "algorithm": algorithm,
                "k": k,
                "precision": value(algorithm),
                "recall": k * 0.01,
                "f1": 0.1,
            }
            for name in names
            for algorithm in (*ALGORITHMS, EXTRA)
            for k in range(1, 51)
        ]
    )


def _growth():
    rows = [
        {"algorithm": name, "variable": variable, "value": size, "milliseconds": 0.01 * size}
        for name in ("Precedence Mining", "ICRS4", "CRS-Max", PLAIN)
        for variable in ("m", "l", "n_c")
        for size in (16, 32, 64)
    ]
    return pl.DataFrame(rows).with_columns(slope=pl.lit(1.0))


def _tuning(names):
    found = {"ap": 0.2, "ap_error": 0.01, "auc": 0.8, "auc_error": 0.01, "n_users": 5}
    paper = {"training": 0.3, "calibration": 0.3}
    rows = []
    for name in names:
        for top in (1, 2, None):
            first = {"dataset": name, "sweep": "top", "algorithm": "Precedence Mining", "top": top}
            rows.append({**first, **paper, **found})
        for training in (0.3, 0.5):
            for calibration in (0.3, 0.5):
                first = {"dataset": name, "sweep": "shares", "algorithm": "ICRS3", "top": None}
                shares = {"training": training, "calibration": calibration}
                rows.append({**first, **shares, **found})
    return pl.DataFrame(rows, schema_overrides={"top": pl.Int64})


def results(names=("first", "ml-10m"), *, times=True, tuning=True):
    datasets = pl.DataFrame(
        {
            "dataset": names,
            "title": [f"Title of {name}" for name in names],
            "users": [40] * len(names),
            "items": [1234] * len(names),
            "rows": [4321] * len(names),
            "origin": ["a <file> & more"] * len(names),
        }
    )
    return Results(
        datasets=datasets,
        metrics=metrics_table(names),
        curves=_curves(names),
        validity=validity_table(names),
        times=times_table(names) if times else None,
        growth=_growth() if times else None,
        tuning=_tuning(names) if tuning else None,
    )


def settings(names=("first", "ml-10m")):
    return Settings(tuple(DataSource(name) for name in names), n_users=40)
