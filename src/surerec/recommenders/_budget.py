"""Lists of at most k items for many users, each with its chances."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np

from surerec._columns import Columns
from surerec.recommenders._sets import people_frame, stacked, user_columns

if TYPE_CHECKING:
    import polars as pl

    from surerec.calibration import UserCalibration
    from surerec.measures import Queries
    from surerec.recommenders._asking import Asking
    from surerec.recommenders._wanted import Wanted


def budget_rows(
    model: Asking,
    calibration: UserCalibration,
    asked: Queries,
    people: pl.Series,
    wanted: Wanted,
) -> pl.DataFrame:
    """Give the rows of some people, with the chances of each one's list."""
    queries = [asked[place].known_to(model.statistics_) for place in range(len(asked))]
    parts, rankings, lengths, expected, covered = [], [], [], [], []
    for query in queries:
        assessment = model.assess(query, wanted=wanted)
        order = wanted.shown(assessment).places
        assert assessment.ranking is not None  # noqa: S101  # calibrated over users
        parts.append(user_columns(assessment, order, wanted.significance))
        rankings.append(assessment.ranking)
        lengths.append(len(order))
        expected.append(float(parts[-1][Columns.Probability].sum()))
        covered.append(not assessment.gap)
    chances = calibration.list_chances(queries, rankings, lengths).probability
    chances[:, ~np.array(covered)] = np.nan  # nobody like them calibrated
    columns, owners = stacked(parts)
    for n_hits, of_lists in enumerate(chances, start=1):
        columns[f"{Columns.AtLeast}{n_hits}"] = np.repeat(of_lists, lengths)
    columns[Columns.ExpectedHits] = np.repeat(expected, lengths)
    return people_frame(columns, people.gather(owners), model.items_.ids, model.titles_)
