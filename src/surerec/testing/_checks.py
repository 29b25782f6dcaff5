"""The checks as a table, and what runs them."""

from __future__ import annotations

from functools import partial
from importlib.util import find_spec
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING

from surerec._arguments import check_choice, check_kind, check_list
from surerec.interactions import Interactions
from surerec.measures import as_recipe
from surerec.recommenders import InductiveConformal, PopulationConformal
from surerec.testing import _answers, _deployed
from surerec.testing._subject import Subject

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

    from surerec.measures import RecipeLike

CHECKS: dict[str, Callable[[Subject, Path], None]] = {
    "known user": _answers.known_user,
    "new history": _answers.new_history,
    "many users": _answers.many_users,
    "short lists": _answers.short_lists,
    "many histories": _answers.many_histories,
    "p-values": _answers.p_values,
    "explained": _answers.explained,
    "sets are nested": _answers.nested,
    "fast paths": _answers.fast_paths,
    "parameters": _answers.parameters,
    "threads": _answers.threads,
    "save and load": _deployed.save_and_load,
    "served": _deployed.served,
    "audited": _deployed.audited,
    "on Spark": _deployed.on_spark,
}
"""All checks by name; each takes a subject and a folder to write to, and may fail."""


def check_recommender(subject: Subject, only: Iterable[str] | None = None) -> None:
    """Run the checks on a recommender.

    Parameters
    ----------
    subject : Subject
        What is checked.
    only : iterable of str, optional
        Names of :data:`CHECKS`; by default all that can run here: serving needs
        ``surerec[serve]``, and Spark a session in the subject.

    Raises
    ------
    AssertionError
        At the first check that fails, with its name and what is wrong.
    """
    check_kind("subject", subject, Subject, "a Subject, what is checked")
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
    scorer: RecipeLike,
    data: Interactions | None = None,
    *,
    only: Iterable[str] | None = None,
) -> None:
    """Run the checks on a scorer of your own, in every recommender that takes one.

    Parameters
    ----------
    scorer : object
        What :func:`surerec.measures.as_recipe` takes: something with
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
    given = None if as_recipe(scorer).stored is not None else scorer
    chosen = None if only is None else check_list("only", only, "names of checks")
    if data is not None:
        check_kind("data", data, Interactions, "Interactions")
    for kind in (InductiveConformal, PopulationConformal):
        check_recommender(Subject(partial(kind, scorer), data, scorer=given), chosen)
