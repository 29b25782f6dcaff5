"""Small synthetic results of a run, in which every number is known."""

from itertools import product

import polars as pl

from surerec.evaluation import EPSILONS, METRICS
from surerec.experiments import ALGORITHMS, DataSource, Results, StudySettings
from surerec.experiments._study import EXTRA, PLAIN, family

# Higher is better: mean and median measures first, plain Precedence Mining last.
STRENGTH = {"mean": 0.20, "median": 0.18, "maximum": 0.15, "minimum": 0.12, "not inductive": 0.16}
ERRORS = {"time": 1.3, "random": 0.9}


def value(algorithm, place=0, strength=STRENGTH):
    if algorithm == ALGORITHMS[0]:
        return 0.05
    if algorithm == EXTRA:
        return 0.17
    if algorithm == "ICRS5":  # equals ICRS1 by algebra
        return value("ICRS1", place, strength)
    return strength[family(algorithm)] - 0.0001 * ALGORITHMS.index(algorithm) - 0.01 * place


def rows(**columns):
    """Return a frame with a row for each combination of the columns' values."""
    return pl.DataFrame(list(product(*columns.values())), schema=list(columns), orient="row")


def filled(frame, **columns):
    """Return a frame with more columns: constants, or functions of each row."""
    made = {
        name: [each(row) if callable(each) else each for row in frame.to_dicts()]
        for name, each in columns.items()
    }
    return frame.with_columns(**{name: pl.Series(values) for name, values in made.items()})


def metrics_table(names, strength=STRENGTH):
    def mean(row):
        place = names.index(row["dataset"])
        more = 0.001 * METRICS.index(row["metric"])
        return value(row["algorithm"], place, strength) + more

    every = {"metric": METRICS, "algorithm": (*ALGORITHMS, EXTRA)}
    frame = rows(dataset=names, split=ERRORS, **every)
    return filled(frame, mean=mean, standard_error=0.0125, n_users=40)


def validity_table(names, errors=ERRORS):
    """Return errors of ε times a factor; minimum measures have 0.7 ε and twice as large sets."""

    def is_minimum(row):
        return family(row["algorithm"]) == "minimum"

    frame = rows(dataset=names, split=errors, algorithm=ALGORITHMS[1:], epsilon=EPSILONS)
    return filled(
        frame,
        validity_error=lambda row: min(
            1.0, row["epsilon"] * (0.7 if is_minimum(row) else errors[row["split"]])
        ),
        standard_error=0.004,
        efficiency_error=lambda row: 0.6 * (1 - row["epsilon"]),
        set_size=lambda row: 1000 * (1 - row["epsilon"]) * (2 if is_minimum(row) else 1),
        n_users=40,
    )


def times_table(names, sorted_search=3.0, as_in_paper=9.0, mining=0.5):
    factors = {"CRS-Med": 5.0, "CRS-Max": sorted_search, PLAIN: as_in_paper, ALGORITHMS[0]: mining}
    return filled(
        rows(dataset=names, algorithm=(*ALGORITHMS, PLAIN)),
        median_ms=lambda row: 0.4 * factors.get(row["algorithm"], 1.0),
        p90_ms=lambda row: 0.8 * factors.get(row["algorithm"], 1.0),
        n_users=5,
    )


def results(names=("first", "ml-10m"), *, times=True):
    datasets = filled(
        rows(dataset=names),
        title=lambda row: f"Title of {row['dataset']}",
        users=40,
        items=1234,
        rows=4321,
        origin="a <file> & more",
    )
    return Results(
        datasets=datasets,
        metrics=metrics_table(names),
        validity=validity_table(names),
        times=times_table(names) if times else None,
    )


def settings(names=("first", "ml-10m")):
    return StudySettings(tuple(DataSource(name) for name in names), n_users=40)
