"""Recommenders by name, and their storage in model folders."""

from __future__ import annotations

import inspect
import os
import sys
from collections.abc import Mapping
from dataclasses import replace
from functools import partial
from importlib import import_module
from typing import TYPE_CHECKING, Any, Final

from surerec._arguments import check_flag, check_path, check_text
from surerec._words import near, shown
from surerec.calibration import GUARANTEE_KINDS
from surerec.errors import InputError, SurerecError, UnknownRecommenderError
from surerec.measures import as_measure, measure_names
from surerec.recommenders._choice import AUTO
from surerec.recommenders._estimator import OWN, Recommender, to_spec
from surerec.recommenders._item_level import (
    InductiveConformal,
    PrecedenceMining,
    TransductiveConformal,
)
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._wrapped import WrappedRecommender
from surerec.storage import load_model, save_model

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec.measures import MeasureLike
    from surerec.precedence import PrecedenceStatistics
    from surerec.storage import RecommenderSpec, StoredModel

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "measure": (str, int, dict),  # a name, a number, or the stored description
    "top": (int, type(None)),
    "window": (int, float, type(None)),
    "max_seconds": (int, float, type(None)),
    "horizon": (int, float),
    "train_share": (int, float),
    "segments": (int, str, list),
    "model": (dict,),  # kind and name
    "covers": (str, type(None)),
    "threshold": (str, type(None)),
    "fallback": (str, type(None)),
    "name": (str, type(None)),
}
"""The JSON types of stored parameters, where they differ from the type of the default."""
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
"""The recommender classes by the name that model folders store."""
DEFAULT_NAMES: Final = ("recall-cm12", "icrs12")
"""The recommenders that `surerec fit` fits by default: a user-level one, and the paper's."""


def _makers() -> dict[str, Callable[[], Recommender]]:
    """Return a constructor for each name: the paper's, then each guarantee with each measure."""
    found: dict[str, Callable[[], Recommender]] = {}
    for measure in measure_names():
        name = f"icrs{as_measure(measure).short_name}".lower()
        found[name] = partial(InductiveConformal, measure=measure)
    found["crs-max"] = TransductiveConformal
    found["crs-med"] = partial(TransductiveConformal, aggregate="median")
    found["precedence-mining"] = PrecedenceMining
    found["precedence-mining-top1"] = partial(PrecedenceMining, top=1)
    for guarantee in GUARANTEE_KINDS.values():
        for measure in (*measure_names(), AUTO):
            found[f"{guarantee.prefix}-{measure.lower()}"] = partial(
                PopulationConformal, measure, guarantee=guarantee.name, horizon=guarantee.horizon
            )
    return found


def recommender_names() -> list[str]:
    """Return the names that :func:`make_recommender` accepts."""
    return list(_makers())


def make_recommender(name: str) -> Recommender:
    """Build a recommender by name.

    Parameters
    ----------
    name : str
        Item-level: "icrs1" … "icrs17", "icrs-learned", "icrs-als", "crs-max", "crs-med",
        "precedence-mining" or "precedence-mining-top1". User-level: "recall-cm12", "hit-cm12" (a
        hit among the next 5 items) or "precision-cm12", with any measure, "learned", "als" or
        "auto".

    Examples
    --------
    >>> make_recommender("icrs3")
    InductiveConformal(measure='CM3')
    """
    requested, makers = check_text("name", name).strip().lower(), _makers()
    if requested in makers:
        return makers[requested]()
    alike = near(requested, makers)
    hint = f"Did you mean {' or '.join(alike)}?" if alike else (
        "Use icrs1 … icrs17, icrs-learned, icrs-als, crs-max, crs-med, precedence-mining, "
        "precedence-mining-top1, or recall-…, hit-… or precision-… with a measure, such as "
        "recall-cm12."
    )  # fmt: skip
    raise InputError(f"There is no recommender {shown(name)}. {hint}")


def save_all(
    folder: str | os.PathLike[str],
    recommenders: Mapping[str, Recommender],
    *,
    overwrite: bool = False,
) -> None:
    """Save fitted recommenders that share one set of statistics in a model folder.

    Parameters
    ----------
    folder : path-like
        A new folder, or a model folder with the same statistics, to which they are added.
    recommenders : mapping of str to Recommender
        At least one, by name; all fitted on the same statistics.
    overwrite : bool, default=False
        Replace the contents of a model folder with other statistics.
    """
    place, replaces = check_path("folder", folder), check_flag("overwrite", overwrite)
    if not isinstance(recommenders, Mapping):
        raise InputError(
            f"recommenders is {shown(recommenders)}. Pass a dict of fitted recommenders by name."
        )
    if not recommenders:
        raise InputError("recommenders is empty. Pass at least one fitted recommender.")
    for name, model in recommenders.items():
        if not isinstance(model, Recommender):
            raise InputError(
                f"recommenders[{shown(name)}] is {shown(model)}. Pass a fitted recommender."
            )
    specs = {name: to_spec(model) for name, model in recommenders.items()}
    models = list(recommenders.values())
    if any(model.statistics_ is not models[0].statistics_ for model in models):
        raise InputError(
            "The recommenders were fitted on different statistics. Fit them on one "
            "PrecedenceStatistics, or save them in separate folders."
        )
    save_model(place, models[0].statistics_, specs, overwrite=replaces)


def load_all(
    folder: str | os.PathLike[str], *, scorer: MeasureLike | None = None, verify: bool = True
) -> dict[str, Recommender]:
    """Load all recommenders of a model folder by name; they share the statistics.

    `scorer` is as in :func:`load`; the recommenders that were saved with their scorer ignore it.
    """
    stored, own = _load(folder, verify=verify), _imported(scorer)
    specs = stored.recommenders.items()
    needs = {name for name, spec in specs if _without_code(spec.params)}
    if own is not None and not needs:
        raise InputError(f"{folder}: all recommenders were saved with their scorer. Omit scorer=.")
    return {
        name: _restored(folder, name, spec, stored.statistics, own if name in needs else None)
        for name, spec in specs
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
        A folder written by ``save``.
    recommender : str, optional
        Its name in the folder; by default the first recommender of the most recent save.
    scorer : object or str, optional
        The wrapped model or custom scorer that it was saved with, as a folder stores no code; or
        where to import it from, as "package.module:object".
    verify : bool, default=True
        Compare every file with its checksum. Without it only the bounds of indices are checked, so
        that a model of gigabytes opens in milliseconds.

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
        raise InputError(f"{folder}: the folder has no recommender. Save one there first.")
    name = next(iter(specs)) if recommender is None else check_text("recommender", recommender)
    if name not in specs:
        raise UnknownRecommenderError(
            f"{folder}: there is no recommender {shown(name)}. Use one of {', '.join(specs)}."
        )
    return _restored(folder, name, specs[name], stored.statistics, _imported(scorer))


def _imported(scorer: Any) -> Any:
    """Import a scorer that is given as "package.module:object"; return others unchanged."""
    if not isinstance(scorer, str):
        return scorer
    module, colon, name = scorer.partition(":")
    if not (module and colon and name):
        raise InputError(f'scorer is {shown(scorer)}. Write it as "package.module:object".')
    if os.getcwd() not in sys.path:  # noqa: PTH109  # as sys.path has it
        sys.path.insert(0, os.getcwd())  # noqa: PTH109
    try:
        found: Any = import_module(module)
    except Exception as error:  # of any kind: it runs the user's code
        raise InputError(
            f"scorer is {shown(scorer)}, and importing {module} failed ({type(error).__name__}: "
            f"{error}). Fix it, install it, or run in the folder that holds it."
        ) from error
    for part in name.split("."):
        if not hasattr(found, part):
            raise InputError(f"scorer is {shown(scorer)}, and {module} has no {name}.")
        found = getattr(found, part)
    return found


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
            f"{folder}: the recommender {name!r} is of the unknown kind {spec.kind!r}. "
            "Upgrade surerec, which may know it."
        )
    kind = KINDS[spec.kind]
    _check_params(f"{folder}: the parameters of {name!r} are invalid", kind, spec.params)
    params = _given_measure(spec.params, scorer, f"{folder}: the recommender {name!r}")
    try:
        found = kind(**params)._restore(statistics, spec.state)  # noqa: SLF001  # our own class
    except SurerecError as error:
        if scorer is not None:
            raise  # the message may be that of the caller's scorer
        raise type(error)(
            f"{folder}: the recommender {name!r} cannot be restored. {error}"
        ) from error
    except (KeyError, ValueError, RecursionError) as error:
        reason = f"there is no {error}" if isinstance(error, KeyError) else error
        raise InputError(
            f"{folder}: the stored state of {name!r} is invalid ({reason}). Save it again, or "
            "upgrade surerec if a newer version saved it."
        ) from error
    found.model_ = replace(found.model_, name=name)
    return found


def _check_params(problem: str, kind: type[Recommender], params: Mapping[str, Any]) -> None:
    """Check names and types of stored parameters: a folder may come from an untrusted source."""
    known = inspect.signature(kind).parameters
    if params.keys() - known.keys():
        raise InputError(f"{problem}: there is no {min(params.keys() - known.keys())!r}.")
    for name, value in params.items():
        default = known[name].default
        expected = _TYPES.get(name, (type(default),))
        if not isinstance(value, expected) or (
            isinstance(value, bool) and not isinstance(default, bool)
        ):
            raise InputError(f"{problem}: {name} is {shown(value)}.")


def _without_code(params: Mapping[str, Any]) -> list[str]:
    """Return the parameter whose value was saved without its code, if any."""
    return [key for key, value in params.items() if isinstance(value, dict) and OWN in value]


def _given_measure(params: Mapping[str, Any], scorer: object, where: str) -> dict[str, Any]:
    """Return the parameters of a stored recommender, with the given scorer if it needs one."""
    own = _without_code(params)
    if not own:
        if scorer is not None:
            raise InputError(f"{where} was saved with its scorer. Load it without scorer=.")
        return dict(params)
    if scorer is None:
        raise InputError(
            f"{where} was saved without its scorer ({params[own[0]][OWN]}), which is Python code. "
            'Pass the object, or where to import it from: scorer="package.module:object".'
        )
    return {**params, own[0]: scorer}
