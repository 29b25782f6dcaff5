"""Recommendation lists with statistical guarantees."""

from surerec._version import __version__

TYPE_CHECKING = False  # as typing has it, which takes longer to import than all that is done here
if TYPE_CHECKING:
    from surerec import datasets
    from surerec.calibration import Guarantee
    from surerec.datasets import load_dataset
    from surerec.errors import (
        AssumedIdsWarning,
        FetchError,
        HistoriesWarning,
        InputError,
        LeftOutWarning,
        NotFittedError,
        StaleModelWarning,
        SurerecError,
    )
    from surerec.interactions import Interactions, read_interactions
    from surerec.live import Live
    from surerec.measures import MEASURES
    from surerec.precedence import PrecedenceStatistics, count_precedence, strongest_pairs
    from surerec.recommenders import (
        GroupExplanation,
        GroupSet,
        InductiveConformal,
        PopulationConformal,
        PrecedenceMining,
        RecommendationSet,
        TransductiveConformal,
        WrappedRecommender,
        load,
        wrap,
    )

_HOMES = (
    "errors",
    "interactions",
    "precedence",
    "measures",
    "calibration",
    "recommenders",
    "datasets",
    "live",
)
"""Where public names are looked for: each imports those before it, so nothing else is imported."""


def __getattr__(name: str) -> object:
    """Import what is asked for: all of it takes a second, and `surerec --version` needs none."""
    from importlib import import_module  # noqa: PLC0415

    if name in _packages():
        return import_module(f"surerec.{name}")
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"surerec.{home}")
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module 'surerec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted({*globals(), *__all__, *_packages()})


def _packages() -> set[str]:
    from pkgutil import iter_modules  # noqa: PLC0415

    return {each.name for each in iter_modules(__path__) if not each.name.startswith("_")}


__all__ = [
    "MEASURES",
    "AssumedIdsWarning",
    "FetchError",
    "GroupExplanation",
    "GroupSet",
    "Guarantee",
    "HistoriesWarning",
    "InductiveConformal",
    "InputError",
    "Interactions",
    "LeftOutWarning",
    "Live",
    "NotFittedError",
    "PopulationConformal",
    "PrecedenceMining",
    "PrecedenceStatistics",
    "RecommendationSet",
    "StaleModelWarning",
    "SurerecError",
    "TransductiveConformal",
    "WrappedRecommender",
    "__version__",
    "count_precedence",
    "datasets",
    "load",
    "load_dataset",
    "read_interactions",
    "strongest_pairs",
    "wrap",
]
