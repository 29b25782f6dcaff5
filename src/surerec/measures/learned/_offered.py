"""What the trees may see: the features by name and in words, and those of each ingredient."""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

from surerec.errors import InputError
from surerec.measures.learned._forward import FORWARD
from surerec.measures.learned._preference import PREFERENCE

if TYPE_CHECKING:
    from collections.abc import Sequence


FEATURES: Final[dict[str, str]] = {
    "count": "users who took it after an item of the profile, on average (CM4)",
    "share": "share of an item's takers who took it later, on average (CM8)",
    "recent_share": "share of takers who took it later, the latest items counting most",
    "last_share": "share of takers who took it later, over the last 5 items of the profile",
    "next": "share of the takers of the last 5 items for whom it was among the next 10",
    "soon": "share of the takers of the last 5 items for whom it was among the next 50",
    "max_share": "share of an item's takers who took it later, the largest (CM9)",
    "median_ratio": "share of those still free to take it who did, median (CM11)",
    "ratio": "share of those still free to take it who did, on average (CM12)",
    "max_ratio": "share of those still free to take it who did, the largest (CM13)",
    "back_share": "share of an item's takers who took it before, on average",
    "order": "how often it came after, of all the times it came before or after",
    "cosine": "similarity to the profile's items by who took them, on average",
    "recent_cosine": "similarity to the profile's items, the latest of them counting most",
    "max_cosine": "similarity to the most similar item of the profile",
    "lift": "how much more often it is taken after these items than by anybody",
    "support": "how many took it",
    "place": "where in their profile users take it",
    "place_ahead": "how much later than the profile's items users take it",
    "days_ahead": "how much newer it is than the profile's items",
    "length": "length of the profile",
    "profile_support": "how popular the profile's items are",
    "ridge": "what a ridge regression on the profile's items expects",
    "late_ridge": "what a ridge regression expects, later items counting more",
    "recent_ridge": "what a ridge regression expects, the latest items counting most",
    "last_ridge": "what a ridge regression expects of the last few items, hardly any other",
}
"""The features in order, each in words."""

EXTRAS: Final[dict[str, dict[str, str]]] = {
    "past to future": FORWARD,
    "matrix factorisation": PREFERENCE,
}
"""Features that are used only where users who were set aside gain by them, by ingredient."""


def in_words(extras: Sequence[str]) -> dict[str, str]:
    """Give all features in order, each in words, with those of some ingredients.

    Examples
    --------
    >>> len(in_words(())), list(in_words(["matrix factorisation"]))[-1]
    (26, 'preference')
    """
    return FEATURES | {name: words for each in extras for name, words in EXTRAS[each].items()}


def extras_of(names: Sequence[str]) -> tuple[str, ...]:
    """Give the ingredients whose features these are, beside the others.

    Examples
    --------
    >>> extras_of([*in_words(["past to future"])]), extras_of([*FEATURES])
    (('past to future',), ())
    """
    extras = tuple(each for each, more in EXTRAS.items() if not {*more}.isdisjoint(names))
    if [*names] != [*in_words(extras)]:
        raise InputError(
            "This learned measure has other features than this surerec computes: train it anew."
        )
    return extras
