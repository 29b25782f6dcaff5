"""The checks as a table, what runs them, and whether a scorer leaves users out as it says."""

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
"""All checks by name; each takes a subject and a folder to write to, and may fail."""


def check_recommender(subject: ModelUnderTest, only: Iterable[str] | None = None) -> None:
    """Run the checks on a recommender.

    Parameters
    ----------
    subject : ModelUnderTest
        What is checked.
    only : iterable of str, optional
        Names of :data:`CHECKS`; by default all that can run here: serving needs
        ``surerec[serve]``, and Spark a session in the subject.

    Raises
    ------
    AssertionError
        At the first check that fails, with its name and what is wrong.
    """
    check_kind("subject", subject, ModelUnderTest, "a ModelUnderTest, what is checked")
    wanted = list(CHECKS) if only is None else check_list("only", only, "names of checks")
    for name in wanted:
        check_choice("A name in only", name, CHECKS)
    if only is None and find_spec("fastapi") is None:
        wanted.remove("served")
    if only is None and subject.spark is None:
        wanted.remove("on Spark")
    for name in wanted:
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
    """Run the checks on a scorer of your own, in every recommender that takes one.

    Parameters
    ----------
    scorer : object
        What :func:`surerec.measures.as_measure` takes: something with
        ``score(history, *, without_user)``, or a function that makes it from statistics.
    data : Interactions, optional
        What the scorer is about; made-up data of 60 items by default, which only suits what is made
        from statistics.
    only : iterable of str, optional
        As in :func:`check_recommender`.

    Raises
    ------
    AssertionError
        At the first check that fails, with its name and what is wrong.
    """
    given = None if as_measure(scorer).stored is not None else scorer
    chosen = None if only is None else check_list("only", only, "names of checks")
    if data is not None:
        check_kind("data", data, Interactions, "Interactions")
    for kind in (InductiveConformal, PopulationConformal):
        check_recommender(ModelUnderTest(partial(kind, scorer), data, scorer=given), chosen)


def check_leaves_users_out(
    recipe: MeasureLike, data: Interactions, *, n_users: int = 20, random_state: int = 0
) -> None:
    """Check that a user who is left out has no part in what scores them, or scores their group.

    For some users the recipe is fitted again on data in which that one user took other things: what
    scores them must not change, nor what scores somebody else of their fold (``Scorer.fold_of``)
    with both left out. Fitting must give the same each time, so seed what is random.

    Parameters
    ----------
    recipe : object
        What :func:`surerec.measures.as_measure` takes, and can be fitted again.
    data : Interactions
        To fit it on.
    n_users : int, default=20
        How many users are tried; each takes a fit.
    random_state : int, default=0
        Of their choice, and of what they take instead.

    Raises
    ------
    AssertionError
        If it declares nothing, or a user's scores depend on what that user took.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
    >>> check_leaves_users_out("CM12", films)
    """
    check_kind("data", data, Interactions, "Interactions")
    check_whole("n_users", n_users)
    made, random = as_measure(recipe), np.random.default_rng(check_random_state(random_state))
    expect(made.refits, f"{made.name} comes fitted: nothing can be compared with another fit")
    fitted_on = count_precedence(data)
    fitted = made.fit(fitted_on)
    expect(fitted.leaves_users_out, f"{made.name} does not say leaves_users_out = True")
    lengths = np.diff(data.offsets)
    enough = random.permutation(np.flatnonzero((lengths > 1) & (lengths < data.n_items)))
    expect(len(enough), "the data have no user with two items")
    folds = fitted.fold_of(enough)
    for user in enough[:n_users].tolist():
        own = data.users[user]
        history = data.consumed(user)[: max(1, lengths[user] // 2)].astype(np.int64)
        counts = count_precedence(with_other_items(data, user, random))
        other = made.fit(counts)
        asked = {
            f"what scores user {own!r} depends on what they took: {made.name} does not leave "
            "users out": Query(history, (user,))
        }
        mates = enough[(folds == fitted.fold_of(np.array([user]))[0]) & (enough != user)]
        for mate in mates[:1].tolist():
            sentence = (
                f"what scores a group depends on what its member {own!r} took: {made.name} does "
                "not leave users of one fold out together"
            )
            asked[sentence] = Query(data.consumed(mate).astype(np.int64), (mate, user))
        for sentence, query in asked.items():
            here, there = (each.score_query(query) for each in (fitted, other))
            expect(np.allclose(here, there, rtol=1e-9, atol=1e-12), sentence)
        known = [
            each.candidates(statistics, history, (user,)).tolist()
            for each, statistics in ((fitted, fitted_on), (other, counts))
        ]
        depends = f"what can be recommended to user {own!r} depends on what they took next"
        expect(known[0] == known[1], depends)
