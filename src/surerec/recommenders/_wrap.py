"""One call around anybody's model."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

from surerec.recommenders._wrapped import WrappedRecommender

if TYPE_CHECKING:
    from collections.abc import Iterable

    from surerec.calibration import Cut, Horizon, Promise
    from surerec.recommenders._wrapped_about import Covers


def wrap(
    model: Any,
    *,
    items: Iterable[Any] | None = None,
    users: Iterable[Any] | None = None,
    covers: Covers | None = None,
    promise: str | Promise = "miss-rate",
    horizon: Horizon = 0.4,
    cut: Cut | None = None,
    groups: int = 1,
    window: float | None = None,
    n_calibration: int = 2000,
    min_known: int = 5,
    seed: int = 0,
    refit: bool = False,
    fallback: str | None = None,
    name: str | None = None,
    verbose: int = 0,
) -> WrappedRecommender:
    """Give a recommender around anybody's model: its sets, with a promise calibrated over users.

    Then `calibrate` it, if the model is fitted, on the future of what it was fitted on; or `fit` a
    copy of it and calibrate that, in one go. The model itself is never changed.

    Parameters
    ----------
    model : object
        A model of implicit (ALS, BPR, LMF, item-item), of RecTools or LensKit;
        :class:`surerec.adapters.Factors` or :class:`surerec.adapters.ItemItem`, arrays of your
        own; something with ``score(history)``; a function of one history, or of a list of them,
        that returns scores; or a frame or file of ``user_id``, ``item_id`` and ``score``, complete
        or with the best of each user only, from any system. Histories are lists of item ids in time
        order, and scores are in the order of `items`.
    items, users : iterable of ids, optional
        Which ids the columns and rows of a fitted model are; by default their numbers: item ids
        that cannot be column numbers are refused, and those that seem not to be are warned of
        (:class:`surerec.errors.AssumedIdsWarning`). With `fit`, `items` is the catalogue: by
        default what somebody took in what the copy is fitted on.
    covers : {"fit", "newcomers"}, optional
        Whom the promise is about: people of the fit, of whose future nothing was in it, or people
        whom the model was not fitted on and scores by their history. By default whoever can
        calibrate it: `calibrate` looks for the users of the past in `users`, and takes the past for
        what the model was fitted on if it keeps none; `fit` covers people of the fit if the model
        keeps something of each (matrix factorisation), else newcomers.
    promise : {"miss-rate", "hit"} or Promise, default="miss-rate"
        What is kept below ε; see :class:`PopulationConformal`.
    horizon : float or int, default=0.4
        The future: a share of a profile, or so many next items. `calibrate` has it cut already: a
        share means all of it.
    cut : {"rank", "score"}, optional
        By default "rank", unless the model has a ``value(scores, history_length)`` that compares
        between people.
    groups : int, default=1
        Separate thresholds for so many groups of people by the number of their known items.
    window : float, optional
        `fit` cuts by the calendar: the last so many days calibrate what was fitted before.
    n_calibration : int, default=2000
        How many calibration users at most.
    min_known : int, default=5
        People of whom less is known neither calibrate nor are promised anything.
    seed : int, default=0
        Of the choice of calibration users.
    refit : bool, default=False
        Whether `fit` ends by fitting a copy on everything. With `window` the promise then assumes
        that it ranks as the calibrated one did; without, nothing is promised.
    fallback : str, optional
        What completes lists that do not hold every item, from the past that `calibrate` is given:
        "popularity", or one of the 17 measures. Without it what is in no list is missed, and
        ``floor_`` tells the smallest ε that can be promised.
    name : str, optional
        What guarantees, reports and messages call the model; by default the name of its class or
        function.
    verbose : int, default=0
        Print the stages of a fit with their times on stderr (1), and the loops in them (2).

    Returns
    -------
    WrappedRecommender

    Raises
    ------
    InputError
        If the model is of an unknown kind, or a setting is impossible.

    Examples
    --------
    >>> import numpy as np
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> class Popular:
    ...     def fit(self, interactions):
    ...         taken = interactions.items_taken
    ...         self.counts = np.bincount(taken, minlength=interactions.n_items)
    ...     def score(self, history):
    ...         return self.counts
    >>> sure = sr.wrap(Popular()).fit(films)
    >>> picks = sure.recommend(history=films.profile(7)["item_id"], confidence=0.8)
    >>> print(picks.guarantee)
    Of the last 40% of items new to the user that they consume, at most 20% is left out on average
    over users whom the model was not fitted on. Assumes users exchangeable with the ... calibration
    users (... to ...) and no drift since. The scores also used later interactions of other users.
    """
    made = WrappedRecommender(
        model,
        items=_kept(items),
        users=_kept(users),
        covers=covers,
        promise=promise,
        horizon=horizon,
        cut=cut,
        groups=groups,
        window=window,
        n_calibration=n_calibration,
        min_known=min_known,
        seed=seed,
        refit=refit,
        fallback=fallback,
        name=name,
        verbose=verbose,
    )
    made.check()
    return made


def _kept(ids: Iterable[Any] | None) -> Iterable[Any] | None:
    """Give ids that can be gone through more than once; a library's own map of ids as it is."""
    return list(ids) if isinstance(ids, Iterator) else ids
