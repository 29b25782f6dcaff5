"""Fitted recommenders on disk and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final

from surerec._arguments import check_flag, check_path, check_text
from surerec._shown import shown
from surerec.errors import InputError, SurerecError, UnknownRecommender
from surerec.recommenders._estimator import Recommender
from surerec.recommenders._measured import given_measure
from surerec.recommenders._names import KINDS
from surerec.storage import load_model, save_model

if TYPE_CHECKING:
    import os

    from surerec.measures import RecipeLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.storage import RecommenderSpec, StoredModel

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "measure": (str, int, dict),  # by name or number, or whose it was
    "top": (int, type(None)),
    "window": (int, float, type(None)),
    "horizon": (int, float),
    "train_share": (int, float),
    "groups": (int, str, list),
    "model": (dict,),  # its kind and its name
    "covers": (str, type(None)),
    "cut": (str, type(None)),
    "fallback": (str, type(None)),
    "name": (str, type(None)),
}
"""What settings may be stored as, where it is not the type of their default."""


def save_all(
    folder: str | os.PathLike[str],
    recommenders: Mapping[str, Recommender],
    *,
    overwrite: bool = False,
) -> None:
    """Save fitted recommenders that share one set of statistics, by name.

    Parameters
    ----------
    folder : path-like
        A new folder, or a model folder with the same statistics, to which they are added.
    recommenders : mapping of str to Recommender
        At least one; all fitted on the same statistics.
    overwrite : bool, default=False
        Replace what a model folder with other statistics holds.
    """
    place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
    if not isinstance(recommenders, Mapping):
        raise InputError(
            f"recommenders are {shown(recommenders)}; they must be a dict of fitted ones by name."
        )
    if not recommenders:
        raise InputError("There is no recommender to save.")
    for name, model in recommenders.items():
        if not isinstance(model, Recommender):
            raise InputError(f"What is called {shown(name)} is {shown(model)}, no recommender.")
    specs = {name: model.to_spec() for name, model in recommenders.items()}
    models = list(recommenders.values())
    if any(model.statistics_ is not models[0].statistics_ for model in models):
        raise InputError("Recommenders of one folder must be fitted on the same statistics.")
    save_model(place, models[0].statistics_, specs, overwrite=replaces)


def load_all(folder: str | os.PathLike[str], *, verify: bool = True) -> dict[str, Recommender]:
    """Load every recommender of a model folder, by name; they share the statistics."""
    stored = _load(folder, verify=verify)
    return {
        name: _restored(folder, name, spec, stored.statistics)
        for name, spec in stored.recommenders.items()
    }


def load(
    folder: str | os.PathLike[str],
    recommender: str | None = None,
    *,
    scorer: RecipeLike | None = None,
    verify: bool = True,
) -> Recommender:
    """Load a fitted recommender from a model folder, memory-mapped.

    Parameters
    ----------
    folder : path-like
        What ``save`` wrote.
    recommender : str, optional
        Its name in the folder; by default what was saved last, the first of that.
    scorer : object, optional
        The scorer of your own that it was fitted with, or what makes it: a folder holds none.
    verify : bool, default=True
        Compare every file with its checksum. Without, the counts, the times and what was learned
        are taken for granted, and only what could lead out of an array is looked at: a model of
        gigabytes opens in milliseconds.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, seed=1)
    >>> folder = getfixture("tmp_path") / "films"
    >>> sr.InductiveConformal("CM3").fit(films).save(folder)
    >>> sr.load(folder)
    InductiveConformal(measure='CM3')
    """
    stored = _load(folder, verify=verify)
    specs = stored.recommenders
    if not specs:
        raise InputError(f"{folder}: there are statistics but no recommender; save one there.")
    name = next(iter(specs)) if recommender is None else check_text("recommender", recommender)
    if name not in specs:
        raise UnknownRecommender(
            f"{folder}: no recommender {shown(name)}; it has {', '.join(specs)}."
        )
    return _restored(folder, name, specs[name], stored.statistics, scorer)


def _load(folder: object, *, verify: object) -> StoredModel:
    return load_model(check_path("folder", folder), verify=check_flag("verify", verify))


def _restored(
    folder: str | os.PathLike[str],
    name: str,
    spec: RecommenderSpec,
    statistics: PrecedenceStatistics,
    scorer: RecipeLike | None = None,
) -> Recommender:
    if spec.kind not in KINDS:
        raise InputError(
            f"{folder}: the recommender {name!r} is of the unknown kind {spec.kind!r}; "
            "a newer surerec may know it."
        )
    kind = KINDS[spec.kind]
    _check_settings(f"{folder}: the settings of {name!r} do not fit", kind, spec.params)
    params = given_measure(spec.params, scorer, f"{folder}: the recommender {name!r}")
    try:
        return kind(**params).restore(statistics, spec.state).named(name)
    except SurerecError as error:
        if scorer is not None:
            raise  # a sentence already, of somebody's own scorer perhaps
        raise type(error)(
            f"{folder}: the recommender {name!r} cannot be restored. {error}"
        ) from error
    except (KeyError, ValueError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else error
        raise InputError(
            f"{folder}: the arrays and texts of {name!r} do not fit it ({reason}); save it again, "
            "or upgrade surerec, as a newer one may have saved it."
        ) from error


def _check_settings(problem: str, kind: type[Recommender], params: Mapping[str, Any]) -> None:
    """Refuse settings of other names or types than a recommender has: a stranger may write them."""
    known = inspect.signature(kind).parameters
    if params.keys() - known.keys():
        raise InputError(f"{problem}: it has none called {min(params.keys() - known.keys())!r}.")
    for name, value in params.items():
        default = known[name].default
        expected = _TYPES.get(name, (type(default),))
        if not isinstance(value, expected) or (
            isinstance(value, bool) and not isinstance(default, bool)
        ):
            raise InputError(f"{problem}: {name} is {shown(value)}.")
