"""Evaluation of every algorithm on every chosen user."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING

import numpy as np
import polars as pl

from surerec._threads import for_each
from surerec.calibration import compare_with_items, p_counts_in_halves, ranks_by_later_item
from surerec.evaluation import Judgement, choose_users, evaluate_user, write_table
from surerec.experiments._study import ALGORITHMS, EXTRA, ORDERS
from surerec.measures import MEASURES, ProfileRows, aggregate, log_score

if TYPE_CHECKING:
    from collections.abc import Iterator
    from pathlib import Path

    from numpy.typing import NDArray

    from surerec.evaluation import Split, SplitOrder
    from surerec.experiments._settings import StudySettings
    from surerec.precedence import PrecedenceStatistics

_USERS_AT_ONCE = 10


def judge(
    statistics: PrecedenceStatistics, split: Split, candidates: NDArray[np.int64]
) -> Iterator[tuple[str, Judgement]]:
    """Yield the judgement of every algorithm on the candidates; counts leave the user out.

    The 17 measures share the rows of the training items, and both CRS share those of the
    calibration items.
    """
    known = ProfileRows(statistics, split.known, split.user)
    yield ALGORITHMS[0], Judgement(log_score(known, None)[candidates])
    # The product of the single largest factor ranks like the largest count.
    yield EXTRA, Judgement(aggregate(known, "count", "maximum")[candidates])
    del known

    later = ProfileRows(statistics, split.calibration, split.user)
    ranks = ranks_by_later_item(later, split.training, candidates)
    for name, how in (("CRS-Med", "median"), ("CRS-Max", "max")):
        counts = p_counts_in_halves(ranks, len(split.training), how)  # type: ignore[arg-type]
        yield name, Judgement(counts.astype(np.float64), counts, 2 * (len(split.training) + 1))
    del later, ranks

    rows = ProfileRows(statistics, split.training, split.user)
    for measure in MEASURES.values():
        found = aggregate(rows, measure.statistic, measure.aggregate)
        scores = -found if measure.is_nonconformity else found
        compared = compare_with_items(scores, split.calibration, candidates)
        yield f"ICRS{measure.number}", Judgement.of(compared)


def evaluate_users(
    name: str, statistics: PrecedenceStatistics, settings: StudySettings, folder: Path
) -> pl.DataFrame:
    """Evaluate all algorithms, in time order and under the random split.

    Finished users are stored in the folder, so that an interrupted run can resume.

    Returns
    -------
    polars.DataFrame
        A row for each split, user and algorithm: the metrics, the expected hits at each k, and
        the validity error, efficiency error and set size at each significance level.
    """
    users = choose_users(
        statistics.interactions, settings.n_users, random_state=settings.random_state
    )
    place = folder.absolute()
    work = [
        (place / f"{order}-{start:05d}.parquet", order, users[start : start + _USERS_AT_ONCE])
        for order in ORDERS
        for start in range(0, len(users), _USERS_AT_ONCE)
    ]
    description = f"{name}: every algorithm on {len(users)} users"
    for_each(partial(_evaluate_some, settings, statistics), work, description, at_once=1)
    frames = [pl.read_parquet(path, glob=False) for path, *_ in work]
    return pl.concat(frames, how="vertical_relaxed")


def _evaluate_some(
    settings: StudySettings,
    statistics: PrecedenceStatistics,
    work: tuple[Path, SplitOrder, NDArray[np.int64]],
) -> None:
    path, order, users = work
    if path.exists():
        return
    rows = [
        row
        for user in users.tolist()
        for row in evaluate_user(
            judge, statistics, user, order=order, k=settings.k, random_state=settings.random_state
        )
    ]
    write_table(pl.DataFrame(rows, infer_schema_length=None), path)
