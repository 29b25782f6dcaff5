"""Runs the contract checks, and checks whether a scorer leaves users out."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

import numpy as np

from surerec._arguments import check_choice, check_kind, check_list, check_random_state, check_whole
from surerec.calibration import with_other_items
from surerec.interactions import Interactions
from surerec.measures import Query, as_measure
from surerec.precedence import count_precedence
from surerec.recommenders import InductiveConformal, PopulationConformal
from surerec.testing import _answers
from surerec.testing._answers import ModelUnderTest, expect

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from surerec.measures import MeasureLike

CHECKS: dict[str, Callable[[ModelUnderTest, Path], None]] = {
    "known user": _answers.known_user,
    "new history": _answers.new_history,
    "many users": _answers.many_users,
    "short lists": _answers.short_lists,
    "many histories": _answers.many_histories,
    "p-values": _answers.p_values,
    "explained": _answers.explained,
    "sets are nested": _answers.nested,
    "parameters": _answers.parameters,
    "threads": _answers.threads,
    "save and load": _answers.save_and_load,
    "served": _answers.served,
    "audited": _answers.audited,
    "on Spark": _answers.on_spark,
}
"""All checks by name. Each receives a model under test and a folder to write to."""


def check_recommender(subject: ModelUnderTest, only: Iterable[str] | None = None) -> None:
    """Run the checks on a recommender.

    Parameters
    ----------
    subject : ModelUnderTest
        The model under test.
    only : iterable of str, optional
        Names in :data:`CHECKS`; by default all that can run: serving requires ``surerec[serve]``,
        and Spark a session in the subject.

    Raises
    ------
    AssertionError
        At the first failure, with the name of the check.
    """
    check_kind("subject", subject, ModelUnderTest, "a ModelUnderTest")
    names = list(CHECKS) if only is None else check_list("only", only, "names of checks")
    for name in names:
        check_choice("A name in only", name, CHECKS)
    if only is None and find_spec("fastapi") is None:
        names.remove("served")
    if only is None and subject.spark is None:
        names.remove("on Spark")
    for name in names:
        with TemporaryDirectory(prefix="surerec-testing-") as folder:
            try:
                CHECKS[name](subject, Path(folder))
            except AssertionError as error:
                raise AssertionError(f"{name}: {error}.") from error


def check_scorer(
    scorer: MeasureLike,
    data: Interactions | None = None,
    *,
    only: Iterable[str] | None = None,
) -> None:
    """Run the checks on a custom scorer, in every recommender that accepts one.

    Parameters
    ----------
    scorer : object
        An object with ``score(history, *, without_user)``, or a function that builds one from
        statistics; see :func:`surerec.measures.as_measure`.
    data : Interactions, optional
        The data of the scorer; by default synthetic data of 60 items, which suit only scorers that
        are built from statistics.
    only : iterable of str, optional
        As in :func:`check_recommender`.

    Raises
    ------
    AssertionError
        At the first failure, with the name of the check.
    """
    given = None if as_measure(scorer).stored is not None else scorer
    chosen = None if only is None else check_list("only", only, "names of checks")
    if data is not None:
        check_kind("data", data, Interactions, "Interactions")
    for kind in (InductiveConformal, PopulationConformal):
        check_recommender(ModelUnderTest(partial(kind, scorer), data, scorer=given), chosen)


def check_leaves_users_out(
    measure: MeasureLike, data: Interactions, *, n_users: int = 20, random_state: int = 0
) -> None:
    """Check that a left-out user's interactions do not affect scores for the user or a group.

    For some users the measure is refitted on data in which that user consumed other items. The
    user's scores must not change, nor those of another user of the fold (``Scorer.fold_of``) with
    both left out. Fits must be deterministic.

    Parameters
    ----------
    measure : object
        A measure that can be refitted; see :func:`surerec.measures.as_measure`.
    data : Interactions
        The data to fit it on.
    n_users : int, default=20
        The number of tried users; each requires a fit.
    random_state : int, default=0
        Seed of the random choice of users and of other items.

    Raises
    ------
    AssertionError
        If the measure declares nothing, or a user's scores depend on their own interactions.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> check_leaves_users_out("CM12", films)
    """
    check_kind("data", data, Interactions, "Interactions")
    check_whole("n_users", n_users)
    made, random = as_measure(measure), np.random.default_rng(check_random_state(random_state))
    expect(made.refits, f"{made.name} cannot be refitted, so there is no other fit to compare")
    fitted_on = count_precedence(data)
    fitted = made.fit(fitted_on)
    expect(fitted.leaves_users_out, f"{made.name} does not declare leaves_users_out = True")
    lengths = np.diff(data.offsets)
    enough = random.permutation(np.flatnonzero((lengths > 1) & (lengths < data.n_items)))
    expect(len(enough), "the data have no user with two items")
    folds = fitted.fold_of(enough)
    for user in enough[:n_users].tolist():
        own = data.users[user]
        history = data.consumed(user)[: max(1, lengths[user] // 2)].astype(np.int64)
        counts = count_precedence(with_other_items(data, user, random))
        other = made.fit(counts)
        queries = {
            f"the scores of user {own!r} depend on their own interactions: {made.name} does not "
            "leave users out": Query(history, (user,))
        }
        mates = enough[(folds == fitted.fold_of(np.array([user]))[0]) & (enough != user)]
        for mate in mates[:1].tolist():
            message = (
                f"the scores of a group depend on the interactions of its member {own!r}: "
                f"{made.name} does not leave users of one fold out together"
            )
            queries[message] = Query(data.consumed(mate).astype(np.int64), (mate, user))
        for message, query in queries.items():
            here, there = (each.score_query(query) for each in (fitted, other))
            expect(np.allclose(here, there, rtol=1e-9, atol=1e-12), message)
        known = [
            each.candidates(statistics, history, (user,)).tolist()
            for each, statistics in ((fitted, fitted_on), (other, counts))
        ]
        depends = f"the candidates of user {own!r} depend on their held-out items"
        expect(known[0] == known[1], depends)
