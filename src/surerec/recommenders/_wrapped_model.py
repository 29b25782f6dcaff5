"""Somebody's model as a scorer: its adapter, whom its promise covers, and what a folder keeps."""

from __future__ import annotations

from copy import copy
from dataclasses import replace
from typing import TYPE_CHECKING, Any, NoReturn, Self, get_args

import numpy as np

from surerec._arguments import check_choice, check_kind
from surerec.adapters import ListsAdapter, WrappedRecipe, WrappedScorer, adapt, check_fallback
from surerec.calibration import NamedItems, find_promise
from surerec.errors import InputError, NotFittedError
from surerec.interactions import IdMap
from surerec.recommenders._fingerprint import check_same, probe, same_kind
from surerec.recommenders._measured import OWN
from surerec.recommenders._population import PopulationConformal
from surerec.recommenders._wrapped_about import About, Covers

if TYPE_CHECKING:
    from collections.abc import Iterable, Mapping

    from numpy.typing import NDArray

    from surerec.adapters import Adapter
    from surerec.calibration import Coverage, Cut
    from surerec.futures import Cases
    from surerec.interactions import Interactions, UserGroups
    from surerec.measures import Query
    from surerec.precedence import PrecedenceStatistics
    from surerec.storage import RecommenderSpec

_PROBE = "wrapped_probe"
_ABOUT = "wrapped_about"


class WrappedModel(PopulationConformal):
    """Gives a recommender somebody's model in the place of a measure."""

    model: Any
    items: Iterable[Any] | None
    users: Iterable[Any] | None
    covers: Covers | None
    fallback: str | None
    name: str | None
    _about: About
    _adapted: tuple[tuple[Any, ...], Adapter] | None = None
    _calibrated_on: tuple[WrappedScorer, PrecedenceStatistics, Cases] | None = None
    """What lists are calibrated on; a folder does not have it."""
    user_groups_: UserGroups | None = None

    def recipe(self) -> WrappedRecipe:
        """Give what fits a copy of the model."""
        adapter = self._adapter()
        covers = self.covers_ if hasattr(self, "_about") else self._covers(adapter)
        return WrappedRecipe(adapter, by_user=covers == "fit")

    def _adapter(self) -> Adapter:
        given = (self.model, self.items, self.users, self.name)
        kept = self._adapted
        if kept is None or any(a is not b for a, b in zip(kept[0], given, strict=True)):
            adapter = adapt(*given[:3])  # lists are read once
            if self.name is not None:
                adapter = copy(adapter)
                adapter.given_name = self.name
            kept = self._adapted = (given, adapter)
        return kept[1]

    def _covers(self, adapter: Adapter) -> Covers:
        """Give whom `fit` is to cover: people of the fit if it keeps something of them."""
        if self.covers is not None:
            return self.covers
        return "fit" if adapter.knows_users else "newcomers"

    def _recipe_key(self) -> tuple[object, ...]:
        return (self.model,)

    def _cut_by(self) -> Cut:
        if self.cut is not None:
            return self.cut
        return "score" if self._adapter().has_value else "rank"

    def _validate(self) -> None:
        if self.covers is not None:
            check_choice("covers", self.covers, get_args(Covers))
        super()._validate()
        if self.name is not None and not check_kind("name", self.name, str, "a text").strip():
            raise InputError("name is empty; name the model as its readers know it.")
        if self.fallback is not None:
            check_fallback(self.fallback)
            if not isinstance(self._adapter(), ListsAdapter):
                raise InputError("fallback= completes lists, and this model is not one of lists.")

    def check(self) -> None:
        """Refuse an unknown kind of model, ids that are not its own, and impossible settings."""
        self._validate()

    @property
    def model_(self) -> Any:
        """The model that serves."""
        return self._wrapped_scorer().adapter.model

    @property
    def covers_(self) -> Covers:
        """Whom the promise is about."""
        self.require_fit()
        return self._about.covers

    @property
    def cut_(self) -> Cut:
        """Where sets are cut."""
        self.require_fit()
        return self._about.cut

    def _wrapped_scorer(self) -> WrappedScorer:
        scorer = self.scorer_
        assert isinstance(scorer, WrappedScorer)  # noqa: S101  # of its own recipe
        return scorer

    def _completed(self, scorer: WrappedScorer) -> WrappedScorer:
        """Give a scorer whose lists are completed by what is known, if that is asked for."""
        adapter = scorer.adapter
        if self.fallback is None or not isinstance(adapter, ListsAdapter):
            return scorer
        whole = adapter.completed(self.fallback, self.statistics_, scorer.columns, scorer.rows)
        return WrappedScorer(whole, scorer.columns, scorer.rows, by_user=True, knows_all=True)

    @property
    def floor_(self) -> float:
        """The smallest ε that can be promised: what no set can hold is missed at any."""
        if self.promises_precision:
            raise InputError("What promises precision has no smallest ε: it tests each precision.")
        return self.calibration_.curve(self.promise).lowest_level()

    def _says(self) -> tuple[Coverage, str, str]:
        about, scorer = self._about, self._wrapped_scorer()
        coverage = about.coverage(scorer.rows >= 0, scorer.adapter.people)
        return coverage, about.future, scorer.adapter.lacking

    def allow(self, name: str, items: Iterable[Any], *, unknown: str = "check") -> Self:
        """Name a list of the items that may be shown, and calibrate on it.

        As :meth:`PopulationConformal.allow` does; but only while it is known what calibration users
        took then, not after `load`: name lists before saving.
        """
        self.require_fit()
        listed = NamedItems(name, self._codes_of(items, unknown))
        if self._calibrated_on is None:
            raise InputError(
                "A saved wrapped model does not hold what its calibration users took then: name "
                "lists before saving it, by allow(…) or lists=."
            )
        self._lists = {**self._lists, name: self._calibrate_list(*self._calibrated_on, listed)}
        return self

    def recalibrate(self, *_: Any, **__: Any) -> NoReturn:
        """Refuse: a wrapped model is calibrated by `fit` or by `calibrate`."""
        raise InputError(
            "A wrapped model is renewed by fit(interactions) or calibrate(past, future)."
        )

    def query(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        group: Any = None,
    ) -> Query:
        """Turn ids into a query; see :meth:`Recommender.query`."""
        if user is not None and history is not None:
            raise InputError(
                "Give user= or history=, not both: a wrapped model scores a user by what is known "
                "of them here."
            )
        return super().query(user, history=history, times=times, at=at, group=group)

    def _in_words(self, value: Any) -> str:
        if value is self.model:
            return self._adapter().name
        for ids in (self.items, self.users):
            if ids is not None and value is ids:
                return f"<{len(list(ids)):,} ids>"
        return super()._in_words(value)

    def require_fit(self) -> None:
        """Refuse a model that was not calibrated."""
        if not hasattr(self, "statistics_"):
            raise NotFittedError(
                "This model is not calibrated yet: call calibrate(past, future) or "
                "fit(interactions) first."
            )

    def to_spec(self) -> RecommenderSpec:
        """Give all that is stored of it but for the statistics and the model."""
        spec = super().to_spec()
        found = probe(self._wrapped_scorer(), self.statistics_, self.calibration_)
        return replace(
            spec,
            arrays={**spec.arrays, _PROBE: found},
            texts={**spec.texts, _ABOUT: self._about.to_text()},
        )

    def _stored_params(self, recipe: Any) -> dict[str, Any]:
        return {
            **self.settings(),
            "model": {OWN: recipe.name} if recipe.stored is None else recipe.stored,
            "promise": find_promise(self.promise).name,
            "groups": self._stored_groups(),
            "items": None,  # the statistics have them
            "users": None,
        }

    def restore(
        self,
        statistics: PrecedenceStatistics,
        arrays: Mapping[str, NDArray[Any]],
        texts: Mapping[str, str],
    ) -> Self:
        """Be as it was when saved, with the model that was calibrated; another one is refused."""
        about = About.from_text(texts[_ABOUT])
        columns, rows = arrays["wrapped_columns"], arrays["wrapped_rows"]
        n_users, profiles = statistics.n_users, statistics.interactions
        n_items = statistics.n_items
        if (
            profiles is None
            or not np.array_equal(np.sort(columns), np.arange(n_items))
            or rows.shape != (n_users,)
        ):
            raise ValueError("they are not those of a wrapped model")
        if isinstance(self.model, str) and self.model == ListsAdapter.stored:
            self.model = _stored_lists(arrays, profiles, columns, rows)
        by_column = profiles.items.ids.gather(np.argsort(columns))
        adapter = same_kind(self.model, by_column)
        adapter.given_name = self.name or adapter.given_name
        by_user = adapter.knows_users and about.covers == "fit"
        self.statistics_, self.items_ = statistics, profiles.items
        scorer = self._completed(
            WrappedScorer(adapter, columns, rows, by_user=by_user, knows_all=adapter.knows_all)
        )
        self._keep_scorer(scorer)
        self._restore_texts({name: text for name, text in texts.items() if name != _ABOUT})
        self._about, self._calibrated_on = about, None
        own = {name: arrays[name] for name in arrays if not name.startswith("wrapped_")}
        self._restore_calibration(own)
        check_same(scorer, statistics, self.calibration_, arrays[_PROBE])
        return self


def _stored_lists(
    arrays: Mapping[str, NDArray[Any]],
    profiles: Interactions,
    columns: NDArray[np.int64],
    rows: NDArray[np.int64],
) -> ListsAdapter:
    """Make lists from a folder; ValueError if lines are not those of its users."""
    mine = {name.removeprefix("wrapped_"): array for name, array in arrays.items()}
    have = np.flatnonzero(rows >= 0)
    if not np.array_equal(np.sort(rows[have]), np.arange(len(have))):
        raise ValueError("its lists are not those of its users")
    users = IdMap(profiles.users.ids.gather(have[np.argsort(rows[have])]), noun="user")
    items = IdMap(profiles.items.ids.gather(np.argsort(columns)), noun="item")
    return ListsAdapter.restored(mine, items, users)
