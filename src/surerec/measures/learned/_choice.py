"""Which ingredients a fold's trees get: those by which users who were set aside gain.

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

from surerec._threads import run_blocks
from surerec.errors import InputError
from surerec.measures.learned._boosting import LARGE, QUICK, SMALL, Binned
from surerec.measures.learned._examples import MOST_HELD_OUT, log_odds
from surerec.measures.learned._offered import EXTRAS, FEATURES, in_words
from surerec.measures.learned._text import read_trees, write_trees
from surerec.measures.learned._trees import Trees

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.measures.learned._examples import Examples, Sampling, Strangers

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
        """Give those that somebody named, in their order here."""
        for name in names:
            if name not in INGREDIENTS:
                raise InputError(
                    f"There is no ingredient {name!r} of the learned measure: there are "
                    f"{', '.join(INGREDIENTS)}."
                )
        return cls(tuple(name for name in INGREDIENTS if name in names))

    def columns(self) -> NDArray[np.int64]:
        """Give the places of its features among all that are offered."""
        names = [*FEATURES]
        wanted = [True] * len(names)
        for extra, more in EXTRAS.items():
            wanted += [extra in self.names] * len(more)
        return np.flatnonzero(wanted)

    def with_(self, name: str) -> Kept:
        """Give the same with one more."""
        return replace(self, names=(*self.names, name))

    def tried(self, name: str, gain: float) -> Kept:
        """Note what was gained by one that was tried."""
        return replace(self, gains=(*self.gains, (name, round(gain, 4))))

    def to_dict(self) -> dict[str, Any]:
        """Give what is stored."""
        return {"kept": list(self.names), "gains": dict(self.gains)}


class Question(NamedTuple):
    """A user set aside, asked for at the longest past."""

    features: NDArray[np.float32]
    """Of every item, with all extras."""
    outside: NDArray[np.int64]
    after: NDArray[np.int64]

    @classmethod
    def of(cls, strangers: Strangers, user: int, sampling: Sampling) -> Question | None:
        """Ask for a user; None where the features know nothing of their past or of their future."""
        length = sampling.future.longest_past(strangers.interactions.times_of(user))
        parts = strangers.cut(user, length, sampling.future)
        if parts is None:
            return None
        (known, after), features = parts, strangers.features
        return cls(features.of(known), features.statistics.items_outside(known), after)


class _Judged(NamedTuple):
    """How one way of growing ranked the futures of users set aside."""

    shares: list[NDArray[np.float32]]
    """Of each user's candidates, ascending."""
    taken: list[NDArray[np.float32]]
    """Of those that the user took."""

    @classmethod
    def of(cls, ranked: Sequence[tuple[NDArray[np.float32], NDArray[np.float32]]]) -> _Judged:
        """Keep each user's shares, ascending, and those of what they took."""
        return cls([each[0] for each in ranked], [each[1] for each in ranked])

    def precisions(self) -> NDArray[np.float64]:
        """Give the share of each user's first ten items that they took."""
        found = [
            np.mean(taken >= shares[-min(_FIRST, len(shares))]) * len(taken) / _FIRST
            for shares, taken in zip(self.shares, self.taken, strict=True)
        ]
        return np.minimum(found, 1.0)  # where shares are tied

    def sizes(self, draws: NDArray[np.int64]) -> NDArray[np.float64]:
        """Give the mean sizes of sets that miss each of the shares of `_MISSES` on average.

        A row for each row of `draws`, which says how often each user is in it.
        """
        lengths = np.array([len(taken) for taken in self.taken])
        shares, owners = np.concatenate(self.taken), np.repeat(np.arange(len(lengths)), lengths)
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
    judges = np.random.default_rng(sampling.seed).permutation(judges)[:most]
    found = run_blocks(lambda user: Question.of(strangers, user, sampling), judges.tolist())
    return [each for each in found if each is not None]


def grow_best(
    examples: Examples,
    asked: Sequence[Question],
    given: Kept | None,
    seed: int,
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
    kept = given or (_with_extras(binned, asked, seed) if asked else Kept())
    sizes = [SMALL, LARGE] if asked or LARGER in kept.names else [SMALL]
    texts = [binned.grow(kept.columns(), size, seed, advance) for size in sizes]
    small = Grown(texts[0], binned.intercept, kept)
    if len(sizes) == 1:
        return small
    both = Grown(_mean(texts), binned.intercept, kept)
    if not asked:
        return both
    gain, error = _gain(_judge(asked, small), _judge(asked, both), seed)
    best = both._replace(kept=kept.with_(LARGER)) if gain > _SURELY * error else small
    return best._replace(kept=best.kept.tried(LARGER, gain))


def _with_extras(binned: Binned, asked: Sequence[Question], seed: int) -> Kept:
    """Give the features that those who were asked for gain by, each beside those before."""
    some = binned.of_users(_OF)

    def judged(kept: Kept) -> _Judged:
        return _judge(asked, Grown(some.grow(kept.columns(), QUICK, seed), some.intercept, kept))

    kept = Kept()
    before = judged(kept)
    for name in EXTRAS:
        after = judged(kept.with_(name))
        gain, error = _gain(before, after, seed)
        if gain > _SURELY * error:
            kept, before = kept.with_(name), after
        kept = kept.tried(name, gain)
    return kept


def _mean(texts: Sequence[str]) -> str:
    """Give the trees of several texts as one, each text an equal part of the answer."""
    trees = [tree.times(1 / len(texts)) for text in texts for tree in read_trees(text)]
    return write_trees(trees, [*in_words(tuple(EXTRAS))])


def _judge(asked: Sequence[Question], grown: Grown) -> _Judged:
    trees = Trees.of(read_trees(grown.text))

    def ranked(one: Question) -> tuple[NDArray[np.float32], NDArray[np.float32]]:
        n_after = len(one.after)
        base = grown.intercept + log_odds(n_after, len(one.outside) - n_after)
        scores = np.full(one.features.shape[1], base)
        trees.add_to(scores, one.features)
        chances = 0.5 * (1 + np.tanh(scores / 2))
        shares = (chances / chances[one.outside].sum()).astype(np.float32)
        return np.sort(shares[one.outside]), shares[one.after]

    return _Judged.of([ranked(one) for one in asked])  # folds are grown side by side


def _gain(before: _Judged, after: _Judged, seed: int) -> tuple[float, float]:
    """Give by how much sets got smaller and first items better, and its standard error over users.

    In logarithms, the mean over the miss rates and precision.
    """
    n, chance = len(before.shares), np.random.default_rng(seed)
    drawn = [np.bincount(chance.integers(0, n, n), minlength=n) for _ in range(_N_DRAWS)]
    draws = np.stack([np.ones(n, np.int64), *drawn])  # everybody once, then as chance has it
    smaller = np.log(before.sizes(draws) / after.sizes(draws))
    worse, better = (draws @ each.precisions() / n + _NO_HITS for each in (before, after))
    gains = np.mean(np.column_stack((smaller, np.log(better / worse))), axis=1)
    return float(gains[0]), float(np.std(gains[1:]))
