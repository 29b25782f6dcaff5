"""The recommenders by name, and fitted ones on disk and back."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from functools import partial
from typing import TYPE_CHECKING, Any, Final

from surerec._arguments import check_flag, check_path, check_text
from surerec._words import near, shown
from surerec.calibration import GUARANTEE_KINDS
from surerec.errors import InputError, SurerecError, UnknownRecommenderError
from surerec.measures import measure_names
from surerec.recommenders._estimator import OWN, Recommender
from surerec.recommenders._item_level import (
    InductiveConformal,
    PrecedenceMining,
    TransductiveConformal,
)
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._wrapped import WrappedRecommender
from surerec.storage import load_model, save_model

if TYPE_CHECKING:
    import os
    from collections.abc import Callable

    from surerec.measures import MeasureLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.storage import RecommenderSpec, StoredModel

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "measure": (str, int, dict),  # by name or number, or whose it was
    "top": (int, type(None)),
    "window": (int, float, type(None)),
    "horizon": (int, float),
    "train_share": (int, float),
    "segments": (int, str, list),
    "model": (dict,),  # its kind and its name
    "covers": (str, type(None)),
    "threshold": (str, type(None)),
    "fallback": (str, type(None)),
    "name": (str, type(None)),
}
"""What settings may be stored as, where it is not the type of their default."""
KINDS: Final[dict[str, type[Recommender]]] = {
    kind.__name__: kind
    for kind in (
        InductiveConformal,
        PopulationConformal,
        PrecedenceMining,
        TransductiveConformal,
        WrappedRecommender,
    )
}
"""The classes of recommenders by name, as model folders have them."""
DEFAULT_NAMES: Final = ("recall-cm12", "icrs12")
"""What is fitted where nothing is said: a promise that holds in time order, and the paper's."""


def _makers() -> dict[str, Callable[[], Recommender]]:
    """Return what makes each recommender, by name: the paper's, then every promise and measure."""
    found: dict[str, Callable[[], Recommender]] = {}
    for measure in measure_names():
        make = partial(InductiveConformal, measure=measure)
        found[make().default_name()] = make
    found["crs-max"] = TransductiveConformal
    found["crs-med"] = partial(TransductiveConformal, aggregate="median")
    found["precedence-mining"] = PrecedenceMining
    found["precedence-mining-top1"] = partial(PrecedenceMining, top=1)
    for guarantee in GUARANTEE_KINDS.values():
        for measure in measure_names():
            found[f"{guarantee.prefix}-{measure.lower()}"] = partial(
                PopulationConformal, measure, guarantee=guarantee.name, horizon=guarantee.horizon
            )
    return found


def recommender_names() -> list[str]:
    """Return the names that :func:`make_recommender` knows."""
    return list(_makers())


def make_recommender(name: str) -> Recommender:
    """Make a recommender by name: the paper's, or what is calibrated over users.

    Parameters
    ----------
    name : str
        "icrs1" … "icrs17", "icrs-learned", "icrs-als", "crs-max", "crs-med", "precedence-mining" or
        "precedence-mining-top1"; "recall-cm12" (miss rate) or "hit-cm12" (a hit among the next
        5 items), with any measure or with "learned" or "als".

    Examples
    --------
    >>> make_recommender("icrs3")
    InductiveConformal(measure='CM3')
    """
    wanted = check_text("name", name).strip().lower()
    every = _makers()
    if wanted in every:
        return every[wanted]()
    alike = near(wanted, every)
    hint = f"did you mean {' or '.join(alike)}?" if alike else (
        "there are icrs1 … icrs17, icrs-learned, icrs-als, crs-max, crs-med, precedence-mining, "
        "precedence-mining-top1, and recall-… and hit-… with a measure, such as "
        "recall-cm12."
    )  # fmt: skip
    raise InputError(f"There is no recommender {shown(name)}; {hint}")


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
    scorer: MeasureLike | None = None,
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
    >>> films = sr.datasets.synthetic(n_users=50, n_items=30, n_rows=600, random_state=1)
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
        raise UnknownRecommenderError(
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
    scorer: MeasureLike | None = None,
) -> Recommender:
    if spec.kind not in KINDS:
        raise InputError(
            f"{folder}: the recommender {name!r} is of the unknown kind {spec.kind!r}; "
            "a newer surerec may know it."
        )
    kind = KINDS[spec.kind]
    _check_settings(f"{folder}: the settings of {name!r} do not fit", kind, spec.params)
    params = _given_measure(spec.params, scorer, f"{folder}: the recommender {name!r}")
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


def _given_measure(params: Mapping[str, Any], scorer: object, where: str) -> dict[str, Any]:
    """Return the parameters of a stored recommender, with its scorer if it lacks one."""
    own = [key for key, value in params.items() if isinstance(value, dict) and OWN in value]
    if not own:
        if scorer is not None:
            raise InputError(f"{where} has its scorer: load it without scorer=.")
        return dict(params)
    if scorer is None:
        raise InputError(
            f"{where} was saved without its scorer ({params[own[0]][OWN]}), which only Python code "
            "has: give it to surerec.load(folder, scorer=…); it can be neither served nor run on "
            "Spark."
        )
    return {**params, own[0]: scorer}
