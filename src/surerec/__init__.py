"""Recommendation lists with statistical guarantees."""

from surerec._version import __version__

TYPE_CHECKING = False  # typing.TYPE_CHECKING, without the import of typing
if TYPE_CHECKING:
    from surerec import datasets
    from surerec.calibration import Guarantee, RankingCalibrator
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
    from surerec.precedence import PrecedenceStatistics, count_precedence
    from surerec.recommenders import (
        Explanation,
        FittedModel,
        GroupExplanation,
        GroupSet,
        Histories,
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
"""The packages that define public names; each imports only those before it."""


def __getattr__(name: str) -> object:
    """Import a public name on first use; `surerec --version` then starts at once."""
    from importlib import import_module  # noqa: PLC0415
    from importlib.util import find_spec  # noqa: PLC0415

    if not name.startswith("_") and find_spec(f"surerec.{name}") is not None:
        return import_module(f"surerec.{name}")
    for home in _HOMES if name in __all__ else ():
        module = import_module(f"surerec.{home}")
        if hasattr(module, name):
            globals()[name] = getattr(module, name)
            return globals()[name]
    raise AttributeError(f"module 'surerec' has no attribute {name!r}")


def __dir__() -> list[str]:
    return sorted(__all__)


__all__ = [
    "MEASURES",
    "AssumedIdsWarning",
    "Explanation",
    "FetchError",
    "FittedModel",
    "GroupExplanation",
    "GroupSet",
    "Guarantee",
    "Histories",
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
    "RankingCalibrator",
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
    "wrap",
]
