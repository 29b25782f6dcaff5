"""LightGBM, and which ingredients a fold's trees get: those by which users set aside gain.

Trees are grown with an ingredient and without it, and both rank the whole catalogue for users whom
neither was grown on. What makes their sets smaller at equal miss rates, and their first ten items
better, is kept if the gain is more than half of its standard error: where futures are short,
differences between users hide what there is, and what is as likely worse is left out. Nobody of the
fold that the trees will score has a part in it.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, Final, NamedTuple

import numpy as np

from surerec._threads import one_thread, run_blocks
from surerec.errors import InputError
from surerec.measures.learned._examples import MOST_HELD_OUT, log_odds
from surerec.measures.learned._features import EXTRAS, FEATURES, in_words
from surerec.measures.learned._trees import Trees, read_trees, write_trees

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples, Sampling, Strangers


@dataclass(frozen=True)
class Growth:
    """How large trees are grown, how many, how much of each is taken, and what each may look at."""

    leaves: int
    rate: float
    most: int
    by_tree: bool = False
    """Whether half of the features are drawn for a tree, not for each split."""

    def settings(self) -> dict[str, Any]:
        """Return it in LightGBM's words."""
        drawn = "feature_fraction" if self.by_tree else "feature_fraction_bynode"
        return {"num_leaves": self.leaves, "learning_rate": self.rate, drawn: 0.5}


SMALL: Final = Growth(leaves=15, rate=0.1, most=100)
LARGE: Final = Growth(leaves=31, rate=0.15, most=90, by_tree=True)
"""As good as with half of the features at each split, in three quarters of the time."""
QUICK: Final = Growth(leaves=15, rate=0.2, most=50)
"""For comparing features."""
_PATIENCE: Final = 15  # trees that may come without being of use to the users held out
_SETTINGS: Final[dict[str, Any]] = {
    "objective": "binary",
    # Strongly held back: on ML-100K trees that were not measured worse than the ridge alone.
    "min_data_in_leaf": 500,
    "lambda_l2": 20.0,
    "use_missing": False,  # features are always there
    "feature_pre_filter": False,  # leaves of other sizes may be grown from the same bins
    "deterministic": True,
    "force_row_wise": True,
    # Folds are trained side by side instead: on a busy machine LightGBM's threads, which wait for
    # each other at every split, were measured to be twenty times slower.
    "num_threads": 1,
    "verbose": -1,
}


def _lightgbm() -> Any:
    try:
        import lightgbm  # noqa: PLC0415  # an extra, and slow to import
    except ImportError as error:
        raise InputError(
            "Training and explaining a learned measure need LightGBM, which is not installed: "
            "pip install 'surerec[learn]'."
        ) from error
    return lightgbm


@dataclass(frozen=True)
class Binned:
    """Examples in LightGBM's bins: made once, grown from many times."""

    learned_from: Any
    """LightGBM's Dataset of those that trees are grown on."""
    stopped_by: Any
    """And of those of users who are held out, where there are any."""
    owners: NDArray[np.int64]
    """Whose the former are."""
    feature_names: list[str]
    intercept: float
    """What goes with trees that are grown from them: the margin, trees and intercept, is the
    log-odds that an item of the whole catalogue is taken."""

    @classmethod
    def of(cls, examples: Examples, feature_names: list[str]) -> Binned:
        """Bring examples to bins, with what their columns are called."""
        held_out = examples.held_out
        learn = ~held_out if 0 < held_out.mean() < 1 else np.ones_like(held_out)
        share = float(np.clip(examples.consumed[learn].mean(), 1e-6, 1 - 1e-6))
        intercept = float(np.log(share / (1 - share)) - examples.offset[learn].mean())

        def rows(which: NDArray[np.bool_]) -> dict[str, Any]:
            return {
                "data": examples.features[which],
                "label": examples.consumed[which],
                "init_score": examples.offset[which] + intercept,
                "params": _SETTINGS,
            }

        data = _lightgbm().Dataset(**rows(learn), feature_name=feature_names).construct()
        judge = data if learn.all() else data.create_valid(**rows(~learn)).construct()
        return cls(data, judge, examples.owners[learn], feature_names, intercept)

    def of_users(self, one_in: int) -> Binned:
        """Return the examples of one in so many users, stopped by the same others."""
        rows = np.flatnonzero(self.owners % one_in == 0)
        some = self.learned_from.subset(rows).construct()
        return replace(self, learned_from=some, owners=self.owners[rows])

    def grow(
        self,
        columns: NDArray[np.int64],
        growth: Growth,
        random_state: int,
        advance: Callable[[float], None] = lambda _: None,
    ) -> str:
        """Grow trees, and return their text.

        Parameters
        ----------
        columns : array of int
            The features that they may look at.
        growth : Growth
            How to grow.
        random_state : int
            Of what is drawn.
        advance : callable, optional
            Hears of each tree.
        """
        lightgbm = _lightgbm()
        # Little data allows only smaller leaves, or there would be no split at all.
        smallest = min(_SETTINGS["min_data_in_leaf"], max(len(self.owners) // 100, 5))
        settings = (
            _SETTINGS | growth.settings() | {"min_data_in_leaf": smallest, "seed": random_state}
        )
        if len(columns) < len(self.feature_names):
            settings["interaction_constraints"] = [columns.tolist()]  # none but these
        grown = lightgbm.train(
            settings,
            self.learned_from,
            growth.most,
            valid_sets=[self.stopped_by],
            callbacks=[
                lightgbm.early_stopping(_PATIENCE, verbose=False),
                lambda _: advance(1),
            ],
        )
        text: str = grown.model_to_string(num_iteration=grown.best_iteration)
        return text


def contributions(text: str, features: NDArray[np.float32]) -> NDArray[np.float64]:
    """Return what each feature moved the margin of an item (TreeSHAP), and last the expectation."""
    booster = _lightgbm().Booster(model_str=text)
    found: NDArray[np.float64] = booster.predict(features[None, :], pred_contrib=True)[0]
    return found


LARGER: Final = "larger trees"
INGREDIENTS: Final = (*EXTRAS, LARGER)
"""What is tried, in this order, each beside what was kept before."""

_MISSES: Final = (0.1, 0.3, 0.5)
_FEWEST_JUDGED: Final = 30
_MOST_ROOM: Final = 1 << 29  # bytes for what is known of every item to those who judge
_N_DRAWS: Final = 50
_FIRST: Final = 10
_NO_HITS: Final = 1e-3  # a precision that is nothing has a logarithm too
_ROUNDING: Final = 1e-9  # of sums of shares that come to a miss rate exactly
_SURELY: Final = 0.5  # of its standard error: what a gain must be more than
_OF: Final = 3  # one in so many users is learned from where features are compared


@dataclass(frozen=True)
class Kept:
    """The ingredients of one fold's trees."""

    names: tuple[str, ...] = ()
    gains: tuple[tuple[str, float], ...] = ()
    """By how much each that was tried made users set aside better off, as a share."""

    @classmethod
    def given(cls, names: Sequence[str]) -> Kept:
        """Return those that a caller named, in their order here."""
        for name in names:
            if name not in INGREDIENTS:
                raise InputError(
                    f"There is no ingredient {name!r} of the learned measure: there are "
                    f"{', '.join(INGREDIENTS)}."
                )
        return cls(tuple(name for name in INGREDIENTS if name in names))

    def columns(self) -> NDArray[np.int64]:
        """Return the places of its features among all that are offered."""
        wanted = [True] * len(FEATURES)
        for extra, more in EXTRAS.items():
            wanted += [extra in self.names] * len(more)
        return np.flatnonzero(wanted)

    def to_dict(self) -> dict[str, Any]:
        """Return what is stored."""
        return {"kept": list(self.names), "gains": dict(self.gains)}


def _tried(kept: Kept, name: str, gain: float, error: float) -> Kept:
    """Return what is kept after one more was tried."""
    gains = (*kept.gains, (name, round(gain, 4)))
    return Kept((*kept.names, name) if gain > _SURELY * error else kept.names, gains)


class Question(NamedTuple):
    """A user set aside, asked for at the longest past."""

    features: NDArray[np.float32]
    """Of every item, with all extras."""
    outside: NDArray[np.int64]
    after: NDArray[np.int64]


class _HeldOutRanks(NamedTuple):
    """How one way of growing ranked the futures of users set aside."""

    shares: list[NDArray[np.float32]]
    """Of each user's candidates, ascending."""
    consumed: list[NDArray[np.float32]]
    """Of those that the user took."""

    def precisions(self) -> NDArray[np.float64]:
        """Return the share of each user's first ten items that they took."""
        found = [
            np.mean(consumed >= shares[-min(_FIRST, len(shares))]) * len(consumed) / _FIRST
            for shares, consumed in zip(self.shares, self.consumed, strict=True)
        ]
        return np.minimum(found, 1.0)  # where shares are tied

    def sizes(self, draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """Return the mean sizes of sets that miss each of the shares of `_MISSES` on average.

        A row for each row of `draws`, which says how often each user is in it.
        """
        lengths = np.array([len(consumed) for consumed in self.consumed])
        shares, owners = np.concatenate(self.consumed), np.repeat(np.arange(len(lengths)), lengths)
        order = np.argsort(shares)
        shares, owners = shares[order], owners[order]
        n = draws.sum(axis=1)
        missed = np.cumsum((draws / lengths)[:, owners], axis=1) / n[:, None]
        rates = np.array(_MISSES) - _ROUNDING
        first = [np.searchsorted(each, rates) for each in missed]
        cuts = shares[np.minimum(first, len(shares) - 1)]
        counts = [len(each) - np.searchsorted(each, cuts.ravel()) for each in self.shares]
        by_user = np.reshape(counts, (len(lengths), *cuts.shape))
        return np.asarray(np.einsum("du,udm->dm", draws, by_user) / n[:, None])


class Grown(NamedTuple):
    """Trees as LightGBM's text over all features that are offered, and what goes with them."""

    text: str
    intercept: float
    kept: Kept


def ask(
    strangers: Strangers, users: NDArray[np.int64], sampling: Sampling, parts: int
) -> list[Question]:
    """Ask for users who are set aside, as many as there is room for.

    Parameters
    ----------
    strangers : Strangers
        The users, and features with all extras that do not know them.
    users : array of int
        Whom is learned from, by code.
    sampling : Sampling
        How examples are drawn.
    parts : int
        Among how many calls the room is shared.
    """
    features = strangers.features
    room = 4 * len(features.in_words) * features.statistics.n_items
    most = -(-min(MOST_HELD_OUT, _MOST_ROOM // room) // parts)
    judges = users[[sampling.sets_aside(int(user)) for user in users]]
    judges = np.random.default_rng(sampling.random_state).permutation(judges)[:most]

    def question(user: int) -> list[Question]:
        length = sampling.future.longest_past(strangers.interactions.times_of(user))
        parts = strangers.cut(user, length, sampling.future)
        if parts is None:
            return []
        known, after = parts
        with one_thread():
            found = features.of(known)
        return [Question(found, features.statistics.items_outside(known), after)]

    return [each for found in run_blocks(question, judges.tolist()) for each in found]


def grow_best(
    examples: Examples,
    asked: Sequence[Question],
    given: Kept | None,
    random_state: int,
    advance: Callable[[float], None],
) -> Grown:
    """Grow trees with what is given, or the ingredients that those who were asked for gain by.

    Features are compared in few small trees on a third of the users. Larger trees are compared as
    they would be used: beside the small ones, each half of the answer. Alone they were measured to
    make sets larger where data are few. A fold has its own data and one thread: threads must not
    share one of LightGBM's data sets.
    """
    if len(asked) < _FEWEST_JUDGED:
        asked = []
    binned = Binned.of(examples, [*in_words(tuple(EXTRAS))])
    kept = given or (_with_extras(binned, asked, random_state) if asked else Kept())
    sizes = [SMALL, LARGE] if asked or LARGER in kept.names else [SMALL]
    texts = [binned.grow(kept.columns(), size, random_state, advance) for size in sizes]
    small = Grown(texts[0], binned.intercept, kept)
    if len(sizes) == 1:
        return small
    both = Grown(_mean(texts), binned.intercept, kept)
    if not asked:
        return both
    kept = _tried(kept, LARGER, *_gain(_judge(asked, small), _judge(asked, both), random_state))
    return (both if LARGER in kept.names else small)._replace(kept=kept)


def _with_extras(binned: Binned, asked: Sequence[Question], random_state: int) -> Kept:
    """Return the features that those who were asked for gain by, each beside those before."""
    some = binned.of_users(_OF)

    def judged(kept: Kept) -> _HeldOutRanks:
        return _judge(
            asked, Grown(some.grow(kept.columns(), QUICK, random_state), some.intercept, kept)
        )

    kept = Kept()
    before = judged(kept)
    for name in EXTRAS:
        after = judged(replace(kept, names=(*kept.names, name)))
        kept = _tried(kept, name, *_gain(before, after, random_state))
        before = after if name in kept.names else before
    return kept


def _mean(texts: Sequence[str]) -> str:
    """Return the trees of several texts as one, each text an equal part of the answer."""
    trees = [tree.times(1 / len(texts)) for text in texts for tree in read_trees(text)]
    return write_trees(trees, [*in_words(tuple(EXTRAS))])


def _judge(asked: Sequence[Question], grown: Grown) -> _HeldOutRanks:
    trees = Trees.of(read_trees(grown.text))

    def ranked(one: Question) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        n_after = len(one.after)
        base = grown.intercept + log_odds(n_after, len(one.outside) - n_after)
        scores = np.full(one.features.shape[1], base)
        with one_thread():  # folds are grown side by side
            trees.add_to(scores, one.features)
        probabilities = 0.5 * (1 + np.tanh(scores / 2))
        shares = (probabilities / probabilities[one.outside].sum()).astype(np.float32)
        return np.sort(shares[one.outside]), shares[one.after]

    both = [ranked(one) for one in asked]
    return _HeldOutRanks([each for each, _ in both], [consumed for _, consumed in both])


def _gain(before: _HeldOutRanks, after: _HeldOutRanks, random_state: int) -> tuple[float, float]:
    """Return how much sets got smaller and first items better, and its standard error over users.

    In logarithms, the mean over the miss rates and precision.
    """
    n, chance = len(before.shares), np.random.default_rng(random_state)
    drawn = [np.bincount(chance.integers(0, n, n), minlength=n) for _ in range(_N_DRAWS)]
    draws = np.stack([np.ones(n, np.int64), *drawn])  # everybody once, then as chance has it
    smaller = np.log(before.sizes(draws) / after.sizes(draws))
    worse, better = (draws @ each.precisions() / n + _NO_HITS for each in (before, after))
    gains = np.mean(np.column_stack((smaller, np.log(better / worse))), axis=1)
    return float(gains[0]), float(np.std(gains[1:]))
