"""Every kind of guarantee, measured on real futures."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from surerec._arguments import check_flag, check_number, check_optional_text, check_seed
from surerec._checks import check_whole
from surerec._shown import declared_name, shown
from surerec.audit._audited import FEWEST_USERS, TooFewUsersError
from surerec.audit._segments import read_segments
from surerec.audit._small import small_audit
from surerec.audit._subject import Subject, of_recipe, of_recommender
from surerec.audit._work import Work
from surerec.errors import InputError
from surerec.interactions import Interactions
from surerec.precedence import PrecedenceStatistics, count_precedence
from surerec.recommenders import Recommender

if TYPE_CHECKING:
    from surerec.audit._result import Audit
    from surerec.measures import RecipeLike

_MOST_DAYS = 1_000_000


def audit(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: RecipeLike = "CM12",
    *,
    make_scorer: RecipeLike | None = None,
    name: str | None = None,
    n_users: int = 1000,
    window: float | None = None,
    as_of: bool = False,
    segments: Any = None,
    user_segments: Any = None,
    seed: int = 0,
) -> Audit:
    """Measure whether each kind of guarantee holds on these data.

    Parameters
    ----------
    data : Interactions, PrecedenceStatistics or Recommender
        Profiles, counts made of them, or a fitted recommender, which is audited with its own
        settings on its own profiles.
    measure : str or object, default="CM12"
        The measure to audit, if `data` is no recommender; or anything that
        :func:`surerec.measures.as_recipe` takes. Over the calendar it is fitted anew for each date,
        on the counts up to it; what comes fitted is not audited there.
    make_scorer : callable, optional
        The same: makes a scorer (:class:`surerec.measures.Scorer`) from statistics.
    name : str, optional
        What the report calls what is audited.
    n_users : int, default=1000
        Random users with 10 items or more; at most so many calibrate, and are tested, in each
        window of the calendar too.
    window : float, optional
        Length of the calendar's windows in days; by default a usual length of which the data have
        six or more.
    as_of : bool, default=False
        Measure user-level promises by profile a second time, with counts up to the start of each
        case's block of the calendar (see :func:`surerec.evaluation.observe_as_of`): by default
        counts know what others did later.
    segments : str, mapping, pandas Series or frame, optional
        Report nominal and observed for each segment of the users. The name of a column of
        `user_segments`, or the segments by user id. By default the segments that the recommender
        was fitted with.
    user_segments : mapping, pandas Series, frame or path, optional
        Where the column `segments` is; see :func:`surerec.interactions.read_user_groups`.
    seed : int, default=0
        Of everything that is drawn.

    Returns
    -------
    Audit
        Sentences and tables. Where fewer than 20 users have profiles that are long enough there
        are no verdicts: it says what is known of the data, which promises can be given without a
        test, and how many users are lacking.

    Raises
    ------
    InputError
        If an argument is not what it must be, or there are no profiles.

    Examples
    --------
    >>> import surerec as sr
    >>> from surerec.audit import audit
    >>> films = sr.datasets.synthetic(n_users=300, n_items=80, n_rows=9000, sequels=0, seed=1)
    >>> found = audit(films, n_users=200)
    >>> {verdict.kind: verdict.kept for verdict in found.verdicts}["miss-score"]
    True
    """
    check_whole("n_users", n_users, lowest=FEWEST_USERS)
    check_seed(seed)
    check_optional_text("name", name)
    if window is not None:
        must = f"a number of days, from 1 to {_MOST_DAYS:,}"
        check_number("window", window, 1, _MOST_DAYS, must, ends=(True, True))
    statistics, subject = _subject(data, measure, make_scorer, name)
    profiles = statistics.require_profiles("there is nobody to audit")
    groups = read_segments(segments, user_segments, profiles.users, subject.segments)
    try:
        work = Work(subject, statistics, n_users, seed, check_flag("as_of", as_of), groups)
    except TooFewUsersError as lacking:
        return small_audit(subject, profiles, lacking, seed)
    work.new_users()
    work.item_level()
    work.user_level()
    work.item_probabilities()
    work.groups_together()
    days = work.calendar(window or subject.window)
    return work.result(days)


def _subject(
    data: Interactions | PrecedenceStatistics | Recommender,
    measure: RecipeLike,
    make_scorer: RecipeLike | None,
    name: str | None,
) -> tuple[PrecedenceStatistics, Subject]:
    if isinstance(data, Recommender):
        data.require_fit()  # its counts are audited
        return data.statistics_, of_recommender(name or data.default_name(), data)
    if make_scorer is None:
        subject = of_recipe(measure, name)
    else:
        subject = of_recipe(make_scorer, name or declared_name(make_scorer) or "this scorer")
    if isinstance(data, Interactions):
        data = count_precedence(data)
    if not isinstance(data, PrecedenceStatistics):
        raise InputError(
            f"audit takes Interactions (see read_interactions), counts or a fitted recommender, "
            f"not {shown(data)}."
        )
    return data, subject
