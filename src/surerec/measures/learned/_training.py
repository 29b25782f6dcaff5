"""Training with LightGBM, and the choice of optional components by validation users.

Trees are trained with a component and without it. Both rank the whole catalogue for validation
users, whom neither was trained on. A component is selected if it makes their sets smaller at equal
recall and their first ten items better. The gain must exceed half of its standard error: where
held-out data are short, differences between users hide small gains. The users of the fold that the
trees will score have no part in the choice. A few next items show too little for a choice. For them
the components are fixed.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec._progress import progress
from surerec._threads import one_thread, run_blocks
from surerec.errors import InputError
from surerec.measures.learned._examples import MOST_VALIDATION_USERS, log_odds
from surerec.measures.learned._features import EXTRAS, FEATURES, describe_features
from surerec.measures.learned._trees import Trees, read_trees, write_trees

if TYPE_CHECKING:
    from collections.abc import Callable, Collection, Sequence

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples, Sampling, TrainingUsers


@dataclass(frozen=True)
class TreeSettings:
    """Size, learning rate and number of trees, and how features are sampled."""

    leaves: int
    rate: float
    most: int
    """Maximum number of trees."""
    by_tree: bool = False
    """Whether half of the features are sampled for each tree instead of each split."""

    def params(self) -> dict[str, Any]:
        """Return the LightGBM parameters."""
        fraction = "feature_fraction" if self.by_tree else "feature_fraction_bynode"
        return {"num_leaves": self.leaves, "learning_rate": self.rate, fraction: 0.5}


SMALL: Final = TreeSettings(leaves=15, rate=0.1, most=100)
LARGE: Final = TreeSettings(leaves=31, rate=0.15, most=90, by_tree=True)
"""As good as with half of the features at each split, in three quarters of the time."""
QUICK: Final = TreeSettings(leaves=15, rate=0.2, most=50)
"""For the comparison of features."""
_LEAF, _SMALL_LEAF = 500, 100
"""Fewest examples in a leaf, and for short horizons."""
_PATIENCE: Final = 15  # rounds of early stopping
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Strong regularization, as by large leaves: without it, trees were worse than the ridge alone.
    "lambda_l2": 20.0,
    "use_missing": False,  # no feature is ever missing
    "feature_pre_filter": False,  # the same bins serve leaves of other sizes
    "deterministic": True,
    "force_row_wise": True,
    # Folds are trained in parallel instead. LightGBM's threads wait for each other at every split,
    # and were twenty times slower on a busy machine.
    "num_threads": 1,
    "verbose": -1,
}


def _lightgbm() -> Any:
    try:
        import lightgbm  # noqa: PLC0415  # an extra, and slow to import
    except ImportError as error:
        raise InputError(
            "LightGBM is not installed; the measure 'learned' needs it to train and to explain. "
            "Install it with: pip install 'surerec[learn]'."
        ) from error
    return lightgbm


@dataclass(frozen=True)
class BinnedExamples:
    """Examples in LightGBM's bins, built once for several trainings."""

    train_set: Any
    """LightGBM Dataset of the training users."""
    validation_set: Any
    """LightGBM Dataset of the validation users; the training set if there are none."""
    owners: NDArray[np.int64]
    """User code of each training example."""
    feature_names: list[str]
    intercept: float
    """Added to the trees: the sum is the log-odds that an item of the catalogue is consumed."""

    @classmethod
    def of(cls, examples: Examples, feature_names: list[str]) -> BinnedExamples:
        """Bin examples whose columns have these names."""
        validation = examples.is_validation
        learn = ~validation if 0 < validation.mean() < 1 else np.ones_like(validation)
        share = float(np.clip(examples.consumed[learn].mean(), 1e-6, 1 - 1e-6))
        intercept = float(np.log(share / (1 - share)) - examples.offset[learn].mean())

        def rows(which: NDArray[np.bool_]) -> dict[str, Any]:
            return {
                "data": examples.features[which],
                "label": examples.consumed[which],
                "init_score": examples.offset[which] + intercept,
                "params": _SETTINGS,
            }

        train = _lightgbm().Dataset(**rows(learn), feature_name=feature_names).construct()
        validate = train if learn.all() else train.create_valid(**rows(~learn)).construct()
        return cls(train, validate, examples.owners[learn], feature_names, intercept)

    def of_users(self, one_in: int) -> BinnedExamples:
        """Return the examples of one in `one_in` training users, with the same validation set."""
        rows = np.flatnonzero(self.owners % one_in == 0)
        subset = self.train_set.subset(rows).construct()
        return replace(self, train_set=subset, owners=self.owners[rows])

    def train(
        self,
        columns: NDArray[np.int64],
        settings: TreeSettings,
        random_state: int,
    ) -> str:
        """Train trees and return their text.

        Parameters
        ----------
        columns : array of int
            Features that the trees may split by.
        settings : TreeSettings
            Size and number of the trees.
        random_state : int
            Seed of the sampling.
        """
        lightgbm = _lightgbm()
        # With little data, large leaves would allow no split at all. For short horizons few of the
        # examples were consumed, and large leaves would hide them.
        largest = _SMALL_LEAF if "sequence" in self.feature_names else _LEAF
        smallest = min(largest, max(len(self.owners) // 100, 5))
        params = (
            _SETTINGS | settings.params() | {"min_data_in_leaf": smallest, "seed": random_state}
        )
        if len(columns) < len(self.feature_names):
            params["interaction_constraints"] = [columns.tolist()]  # excludes all other features
        stop = lightgbm.early_stopping(_PATIENCE, verbose=False)
        with progress("Adding trees, at most", settings.most, unit="trees") as advance:
            booster = lightgbm.train(
                params,
                self.train_set,
                settings.most,
                valid_sets=[self.validation_set],
                callbacks=[stop, lambda _: advance(1)],
            )
        text: str = booster.model_to_string(num_iteration=booster.best_iteration)
        return text


def contributions(text: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return the contribution of each feature to an item's margin (TreeSHAP), then the baseline."""
    booster = _lightgbm().Booster(model_str=text)
    found: NDArray[np.float64] = booster.predict(features[None, :], pred_contrib=True)[0]
    return found


LARGER: Final = "larger trees"
COMPONENTS: Final = (*EXTRAS, LARGER)
"""Optional components in the order in which they are tried, each beside those selected before."""
_FOR_NEXT_ITEMS: Final = ("sequence", "matrix factorisation", LARGER)
"""Components for short horizons. They are not tried: a next item of few users hides their gain."""

_MISS_RATES: Final = (0.1, 0.3, 0.5)
_FEWEST_VALIDATION: Final = 30
_MOST_BYTES: Final = 1 << 29  # of all validation users' features
_N_DRAWS: Final = 50
_FIRST: Final = 10
_NO_HITS: Final = 1e-3  # keeps the logarithm of a precision of 0 finite
_ROUNDING: Final = 1e-9  # of sums of shares that reach a miss rate exactly
_LEAST_GAIN: Final = 0.5  # standard errors
_COMPARED: Final = 3  # one in so many users trains the comparison of features


@dataclass(frozen=True)
class SelectedComponents:
    """Optional components of one fold's trees."""

    offered: tuple[str, ...]
    """Components whose features are computed."""
    names: tuple[str, ...] = ()
    gains: tuple[tuple[str, float], ...] = ()
    """Relative gain of the validation users by each component that was tried."""
    are_given: bool = False
    """Whether the components are fixed and none is tried."""

    @classmethod
    def of(cls, names: Sequence[str] | None, *, is_short: bool) -> SelectedComponents:
        """Return the components that a caller named, or those of a horizon."""
        if names is None and not is_short:
            return cls(tuple(each for each in EXTRAS if each != "sequence"))
        for name in (names := _FOR_NEXT_ITEMS if names is None else names):
            if name not in COMPONENTS:
                raise InputError(
                    f"components= has {name!r}, which is no component of the measure 'learned'. "
                    f"Choose from: {', '.join(COMPONENTS)}."
                )
        ordered = tuple(name for name in COMPONENTS if name in names)
        return cls(tuple(name for name in ordered if name in EXTRAS), ordered, are_given=True)

    def columns(self) -> NDArray[np.int64]:
        """Return the positions of the selected features among all features."""
        selected = [True] * len(FEATURES)
        for extra in self.offered:
            selected += [extra in self.names] * len(EXTRAS[extra])
        return np.flatnonzero(selected)

    def to_dict(self, used: Collection[str]) -> dict[str, Any]:
        """Return what is stored: the selected components that some trees use, and all gains."""
        selected = [name for name in self.names if name in (*used, LARGER)]
        return {"selected": selected, "gains": dict(self.gains)}

    def with_trial(self, name: str, gain: float, error: float) -> SelectedComponents:
        """Return the selection after a trial of one more component."""
        gains = (*self.gains, (name, round(gain, 4)))
        names = (*self.names, name) if gain > _LEAST_GAIN * error else self.names
        return replace(self, names=names, gains=gains)


class ValidationUser(NamedTuple):
    """Features and held-out items of a validation user with the longest history."""

    features: NDArray[np.float32]
    """Features of every item, with all optional ones."""
    candidates: NDArray[np.int64]
    consumed: NDArray[np.int64]


class _ValidationRanks(NamedTuple):
    """Predicted shares of the candidates and held-out items of validation users."""

    shares: list[NDArray[np.float32]]
    """Shares of each user's candidates, ascending."""
    consumed: list[NDArray[np.float32]]
    """Shares of the items that each user consumed."""

    def precisions(self) -> NDArray[np.float64]:
        """Return the share of each user's first ten items that the user consumed."""
        found = [
            np.mean(consumed >= shares[-min(_FIRST, len(shares))]) * len(consumed) / _FIRST
            for shares, consumed in zip(self.shares, self.consumed, strict=True)
        ]
        return np.minimum(found, 1.0)  # where shares are tied

    def sizes(self, draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean set size at each of the `_MISS_RATES`.

        There is one row for each row of `draws`, which counts how often each user is drawn.
        """
        lengths = np.array([len(consumed) for consumed in self.consumed])
        shares, owners = np.concatenate(self.consumed), np.repeat(np.arange(len(lengths)), lengths)
        order = np.argsort(shares)
        shares, owners = shares[order], owners[order]
        n = draws.sum(axis=1)
        missed = np.cumsum((draws / lengths)[:, owners], axis=1) / n[:, None]
        rates = np.array(_MISS_RATES) - _ROUNDING
        first = [np.searchsorted(each, rates) for each in missed]
        thresholds = shares[np.minimum(first, len(shares) - 1)]
        counts = [len(each) - np.searchsorted(each, thresholds.ravel()) for each in self.shares]
        by_user = np.reshape(counts, (len(lengths), *thresholds.shape))
        return np.asarray(np.einsum("du,udm->dm", draws, by_user) / n[:, None])


class TrainedTrees(NamedTuple):
    """LightGBM's text of trees over all features, their intercept and their components."""

    text: str
    intercept: float
    selected: SelectedComponents


def draw_validation_users(
    training_users: TrainingUsers, users: NDArray[np.int64], sampling: Sampling, n_calls: int
) -> list[ValidationUser]:
    """Return validation users, as many as fit in memory.

    Parameters
    ----------
    training_users : TrainingUsers
        The users, and features with all optional ones, computed without these users.
    users : array of int
        Codes of the users to draw from.
    sampling : Sampling
        How examples are drawn.
    n_calls : int
        Number of calls that share the memory.
    """
    features = training_users.features
    n_bytes = 4 * len(features.descriptions) * features.statistics.n_items
    most = -(-min(MOST_VALIDATION_USERS, _MOST_BYTES // n_bytes) // n_calls)
    chosen = users[[sampling.is_validation_user(int(user)) for user in users]]
    chosen = np.random.default_rng(sampling.random_state).permutation(chosen)[:most]

    def load(user: int) -> list[ValidationUser]:
        length = sampling.target.longest_past(training_users.interactions.times_of(user))
        parts = training_users.split(user, length, sampling.target)
        if parts is None:
            return []
        known, after = parts
        with one_thread():
            found = features.of(known)
        return [ValidationUser(found, features.statistics.items_outside(known), after)]

    with progress("Drawing validation users", len(chosen), unit="users") as advance:
        results = advance.through(run_blocks(load, chosen.tolist()), len(chosen), len(chosen))
        return [each for found in results for each in found]


def train_best(
    examples: Examples,
    validation: Sequence[ValidationUser],
    selected: SelectedComponents,
    random_state: int,
    describe: Callable[[str], None],
) -> TrainedTrees:
    """Train trees with the given components, or with those that validation users gain by.

    Features are compared with few small trees on a third of the users. Larger trees are compared
    as they are used: averaged with the small ones. On their own they made sets larger where data
    are few. Each fold has its own data and one thread, as LightGBM data sets are not thread-safe.
    """
    if len(validation) < _FEWEST_VALIDATION:
        validation = []
    binned = BinnedExamples.of(examples, [*describe_features(selected.offered)])
    if validation:
        selected = _select_features(binned, validation, selected, random_state, describe)
    sizes = [SMALL, LARGE] if validation or LARGER in selected.names else [SMALL]
    describe("small and larger trees" if len(sizes) > 1 else "trees")
    texts = [binned.train(selected.columns(), size, random_state) for size in sizes]
    small = TrainedTrees(texts[0], binned.intercept, selected)
    if len(sizes) == 1:
        return small
    both = TrainedTrees(_mean(texts, binned.feature_names), binned.intercept, selected)
    if not validation:
        return both
    gain = _gain(_rank(validation, small), _rank(validation, both), random_state)
    selected = selected.with_trial(LARGER, *gain)
    return (both if LARGER in selected.names else small)._replace(selected=selected)


def _select_features(
    binned: BinnedExamples,
    validation: Sequence[ValidationUser],
    selected: SelectedComponents,
    random_state: int,
    describe: Callable[[str], None],
) -> SelectedComponents:
    """Return the features that validation users gain by, each beside those selected before."""
    some = binned.of_users(_COMPARED)

    def ranks(selected: SelectedComponents) -> _ValidationRanks:
        text = some.train(selected.columns(), QUICK, random_state)
        return _rank(validation, TrainedTrees(text, some.intercept, selected))

    describe("comparing features")
    before = ranks(selected)
    for name in selected.offered:
        describe(f"comparing '{name}'")
        after = ranks(replace(selected, names=(*selected.names, name)))
        selected = selected.with_trial(name, *_gain(before, after, random_state))
        before = after if name in selected.names else before
    return selected


def _mean(texts: Sequence[str], feature_names: Sequence[str]) -> str:
    """Return the average of several models as one text."""
    trees = [tree.scaled(1 / len(texts)) for text in texts for tree in read_trees(text)]
    return write_trees(trees, feature_names)


def _rank(validation: Sequence[ValidationUser], trained: TrainedTrees) -> _ValidationRanks:
    trees = Trees.of(read_trees(trained.text))

    def shares_of(user: ValidationUser) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        n_consumed = len(user.consumed)
        base = trained.intercept + log_odds(n_consumed, len(user.candidates) - n_consumed)
        scores = np.full(user.features.shape[1], base)
        with one_thread():  # folds are trained in parallel
            trees.add_to(scores, user.features)
        probabilities = 0.5 * (1 + np.tanh(scores / 2))
        shares = (probabilities / probabilities[user.candidates].sum()).astype(np.float32)
        return np.sort(shares[user.candidates]), shares[user.consumed]

    n = len(validation)
    with progress("Ranking validation users", n, unit="users") as advance:
        both = [*advance.through(map(shares_of, validation), n, n)]
    return _ValidationRanks([each for each, _ in both], [consumed for _, consumed in both])


def _gain(
    before: _ValidationRanks, after: _ValidationRanks, random_state: int
) -> tuple[float, float]:
    """Return the gain in set size and precision, and its standard error over users.

    The gain is the mean logarithmic improvement over the miss rates and the precision.
    """
    n, rng = len(before.shares), np.random.default_rng(random_state)
    drawn = [np.bincount(rng.integers(0, n, n), minlength=n) for _ in range(_N_DRAWS)]
    draws = np.stack([np.ones(n, np.int64), *drawn])  # all users once, then bootstrap samples
    smaller = np.log(before.sizes(draws) / after.sizes(draws))
    worse, better = (draws @ each.precisions() / n + _NO_HITS for each in (before, after))
    gains = np.mean(np.column_stack((smaller, np.log(better / worse))), axis=1)
    return float(gains[0]), float(np.std(gains[1:]))
