"""Models of anybody's: what has ``score(history)``, or a function from histories to scores."""

from __future__ import annotations

import threading
from contextlib import suppress
from copy import copy, deepcopy
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from surerec._shown import declared_name, public_name
from surerec.adapters._adapter import Adapter, ids_of
from surerec.errors import InputError
from surerec.measures import Contribution

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from numpy.typing import NDArray

    from surerec.interactions import Interactions


class OwnAdapter(Adapter):
    """What scores histories of ids, and gives scores in the order of ``items=``.

    A function takes a list of histories and returns a row of scores for each, or takes one history
    and returns its scores; the first call finds out which. The method ``score`` takes one history.
    A history is a list of item ids in time order. Calls are made one at a time, also from threads.
    """

    takes_one: bool | None = None
    """Whether a function takes one history; None until the first call."""

    def __init__(
        self, model: Any, items: Iterable[Any] | None = None, users: Iterable[Any] | None = None
    ) -> None:
        self.model = model
        self.is_function = not hasattr(model, "score")
        self.can_fit = not self.is_function and callable(getattr(model, "fit", None))
        self.has_value = not self.is_function and callable(getattr(model, "value", None))
        self.knows_all = items is not None
        if items is not None:
            self.items = ids_of(items, None, "item", self.name)
        self.users = None if users is None else ids_of(users, None, "user", self.name)
        self._lock = threading.Lock()

    def __getstate__(self) -> dict[str, Any]:
        return {name: value for name, value in vars(self).items() if name != "_lock"}

    def __setstate__(self, state: dict[str, Any]) -> None:
        vars(self).update(state, _lock=threading.Lock())

    @property
    def own_name(self) -> str:
        """What it declares as its name, or the name of its public class or function."""
        return declared_name(self.model) or public_name(self.model) or "the wrapped model"

    def check_fitted(self) -> None:
        """Refuse to guess a catalogue."""
        if self.items is None:
            raise InputError(
                f"Which items {self.name} scores is not known: give items=, the id of each in the "
                "order of its scores."
            )

    def score_histories(self, histories: Sequence[NDArray[np.int64]]) -> NDArray[np.floating]:
        """Ask it, by ids."""
        known = [self.catalogue.ids.gather(history).to_list() for history in histories]
        with self._lock:
            if not self.is_function:
                return np.stack([self._checked(self.model.score(each)) for each in known])
            if self.takes_one is None and known:
                self.takes_one = self._probe(known[0])
            if self.takes_one:
                return np.stack([self._checked(self.model(each)) for each in known])
            return self._checked(self.model(known), len(known))

    def _probe(self, history: list[Any]) -> bool:
        """Return whether the function takes one history rather than a list of them."""
        # Not as many copies as the history has items: indexing by a square list of lists would
        # give a function of one history the shape of a row for each.
        n_copies = 3 if len(history) == 2 else 2  # noqa: PLR2004
        try:
            self._checked(self.model([history] * n_copies), n_copies)
        except Exception:
            with suppress(Exception):
                self._checked(self.model(history))
                return True
            raise  # it takes neither
        return False

    def _checked(self, given: Any, n_people: int | None = None) -> NDArray[np.floating]:
        shape = (len(self.catalogue),) if n_people is None else (n_people, len(self.catalogue))
        try:
            scores = np.asarray(given, dtype=np.float64)
        except (TypeError, ValueError):
            scores = np.empty(())
        if scores.shape != shape:
            wanted = (
                f"score(history) must give one for each of the {shape[-1]:,} items"
                if n_people is None
                else f"a function of {n_people:,} histories must give a row for each, with one for "
                f"each of the {shape[-1]:,} items"
            )
            raise InputError(f"{self.name} gave scores of shape {scores.shape}: {wanted}.")
        return scores

    def fitted_on(self, known: Interactions) -> Self:
        """Call ``fit(interactions)`` of a copy."""
        fresh = copy(self)
        fresh.model = deepcopy(self.model)
        fresh.model.fit(known)
        if not self.knows_all:
            fresh.items = known.items
        fresh.users = known.users
        return fresh

    def value(
        self, scores: NDArray[np.float64], history_length: int | NDArray[np.int64]
    ) -> NDArray[np.float64]:
        """Ask it."""
        return np.asarray(self.model.value(scores, history_length), dtype=np.float64)

    def contributions(
        self, row: int | None, history: NDArray[np.int64], column: int
    ) -> tuple[Contribution, ...]:
        """Ask it, by ids, if it can tell."""
        del row
        if not hasattr(self.model, "contributions"):
            return ()
        known = self.catalogue.ids.gather(history).to_list()
        found = self.model.contributions(known, self.catalogue[column])
        return tuple(Contribution(*each) for each in found)
