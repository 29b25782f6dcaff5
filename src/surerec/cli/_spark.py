"""The same commands on Apache Spark; its package is imported when it is asked for."""

from __future__ import annotations

from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from surerec.cli import _show
from surerec.cli._output import messages
from surerec.errors import InputError
from surerec.interactions import is_address
from surerec.storage import read_card

if TYPE_CHECKING:
    from surerec.cli._reading import Reader
    from surerec.experiments import Engine
    from surerec.recommenders import Recommender


def check_engine(engine: str, **given: object) -> None:
    """Refuse options that are Spark's without it."""
    for name, value in given.items():
        if engine != "spark" and value is not None:
            raise InputError(f"--{name} is for Spark: add --engine spark.")


def fit_on_spark(
    data: Reader,
    model: Path,
    made: dict[str, Recommender],
    counting: dict[str, Any],
    session: dict[str, Any],
    sequence: str | None,
    *,
    overwrite: bool,
    user_groups: Any,
) -> None:
    """Fit a model folder on Spark."""
    reading = {name: value for name, value in data.options.items() if value is not None}
    if "query" in reading or is_address(data.source):
        raise InputError(
            "Spark reads no database here and takes no --query: write the rows into a Parquet file "
            "that the executors can read, or leave --engine spark away to read them in memory."
        )
    if "title" in reading and "titles" not in reading:
        raise InputError(
            "Spark reads titles from a file only: write item ids and titles into one and pass "
            "--titles FILE, or leave --engine spark away."
        )
    from surerec.spark import (  # noqa: PLC0415  # an extra
        Counting,
        fit_spark,
        read_frame,
        spark_session,
    )

    how = Counting(**{name: value for name, value in counting.items() if value is not None})
    how.check(has_sequence=sequence is not None)
    columns = reading.pop("columns", None)
    begin = perf_counter()
    frame = read_frame(
        spark_session(**session), data.source, columns.split(",") if columns else None
    )
    fit_spark(
        frame,
        model,
        made,
        counting=how,
        overwrite=overwrite,
        user_groups=user_groups,
        sequence=sequence,
        name=Path(data.source).name,
        **reading,
    )
    counts = read_card(model)["counts"]
    messages().print(
        f"Counted {counts['rows']:,} interactions of {counts['users']:,} users and "
        f"{counts['items']:,} items on Spark in {perf_counter() - begin:.1f} s and saved "
        f"{', '.join(made)} in {_show.plain(str(model))}."
    )


def recommend_on_spark(
    model: Path,
    output: Path,
    users: list[str] | None,
    session: dict[str, Any],
    *,
    recommender: str | None,
    **wanted: Any,
) -> None:
    """Recommend to many users on Spark."""
    from surerec.recommenders import load  # noqa: PLC0415  # needed here alone
    from surerec.spark import recommend_spark, spark_session  # noqa: PLC0415  # an extra

    fitted = load(model, recommender, verify=False)
    said = fitted.guarantee_to_all(fitted.options(**wanted))
    begin = perf_counter()
    spark = spark_session(**session)
    name = recommender or next(iter(read_card(model)["recommenders"]), "")
    n_rows = recommend_spark(spark, model, output, users, recommender=recommender, **wanted)
    messages().print(
        f"Wrote {n_rows:,} recommendations by {name} to {_show.plain(str(output))} on Spark "
        f"in {perf_counter() - begin:.1f} s."
    )
    messages().print(_show.plain(f"Guarantee, to users with covered = true: {said}"))


def spark_engine(session: dict[str, Any]) -> Engine:
    """Give what evaluates users on Spark."""
    from surerec.spark import SparkEngine, spark_session  # noqa: PLC0415  # an extra

    return SparkEngine(spark_session(**session))
