"""Calibration of score matrices: arrays in, recommendation sets out."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from itertools import islice
from typing import TYPE_CHECKING, Any, Final, Self, get_args, overload
from zipfile import BadZipFile

import numpy as np

from surerec._arguments import (
    check_choice,
    check_number,
    check_path,
    check_random_state,
    check_text,
    check_whole,
)
from surerec._files import file_aside
from surerec._state import ArraySchema, State, check_arrays
from surerec._threads import run_blocks
from surerec._words import counted
from surerec.calibration._guarantee import Guarantee, ThresholdChoice, find_guarantee, level_of
from surerec.calibration._held_out import Cases
from surerec.calibration._learned import LearnedThreshold, entries_of, sizes_by_unit, unit_of
from surerec.calibration._precision import ServedList, order_of_tests
from surerec.calibration._probabilities import (
    ItemProbabilities,
    choose_among,
)
from surerec.calibration._ranking import Outcomes
from surerec.calibration._rows import blocks_of, rows_of
from surerec.calibration._users import NO_PROBABILITIES
from surerec.calibration.kernels import ranks_among
from surerec.conformal import TOLERANCE, significance_of
from surerec.errors import InputError, NotFittedError
from surerec.interactions import Interactions

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterable

    from numpy.typing import NDArray

    from surerec.calibration._guarantee import GuaranteeKind
    from surerec.calibration._probabilities import Choice
    from surerec.calibration._ranking import Bins, Ranking
    from surerec.calibration._rows import Row
    from surerec.conformal import Passed, RiskCurve

_AT_ONCE: Final = 256
_FORMAT: Final = "surerec ranking calibrator 1"
_PROBABILITIES: Final = "probabilities_"
_SCHEMAS: Final = {
    "entries": ArraySchema("float64", ("n_entries",), holds="numbers"),
    "owners": ArraySchema("int64", ("n_entries",), low=0),
}


@dataclass(frozen=True, eq=False)
class RankedSets:
    """Recommendation sets of several users, as column numbers.

    ``sets[user]`` has the items of a user, best first; ``len(sets)`` is the number of users.

    Attributes
    ----------
    offsets, items : array of int
        Set ``u`` is ``items[offsets[u]:offsets[u + 1]]``.
    n_items : int
        Number of columns.
    """

    offsets: NDArray[np.int64]
    items: NDArray[np.int64]
    n_items: int

    def __len__(self) -> int:
        return len(self.offsets) - 1

    def __getitem__(self, user: int) -> NDArray[np.int64]:
        start, stop = self.offsets[range(len(self))[user]], self.offsets[range(len(self))[user] + 1]
        return self.items[start:stop]

    @property
    def sizes(self) -> NDArray[np.int64]:
        """Number of items in each set."""
        return np.diff(self.offsets)

    def to_mask(self) -> NDArray[np.bool_]:
        """Return a boolean matrix, users × items."""
        found = np.zeros((len(self), self.n_items), dtype=bool)
        found[np.repeat(np.arange(len(self)), self.sizes), self.items] = True
        return found


class RankingCalibrator:
    """Recommendation sets with a guarantee, from a matrix of scores of any model.

    It calibrates as :func:`surerec.wrap` does, without ids and interactions. The model must not
    have learned from the relevant items of the calibration users.

    Parameters
    ----------
    guarantee : {"recall", "hit", "precision"} or GuaranteeKind, default="recall"
        The guarantee; see :class:`PopulationConformal`. Stored as `kind`.
    threshold : {"rank", "score", "learned"}, optional
        Where rankings are cut. By default "rank" or "learned", whichever has the smaller sets on
        the users who learn; see :func:`surerec.wrap`.
    horizon : str, default="the relevant items of a user"
        What relevant items are, for the text of the guarantee.
    n_learning : int, default=2000
        Number of first users to keep in memory. One in four of them learns the threshold, and they
        calibrate probabilities and precision. Further users are streamed.
    random_state : int, default=0
        Seed of the random choice of users who learn.

    Attributes
    ----------
    n_calibration_ : int
        Number of users who calibrate the threshold.
    threshold_ : {"rank", "score", "learned"}
        The threshold unit in use.
    threshold_sizes_ : dict of dict
        Mean set sizes by "rank" and "learned" thresholds at each confidence, cross-validated on the
        users who learn; empty if they were not compared.

    Examples
    --------
    >>> import surerec as sr
    >>> random = np.random.default_rng(0)
    >>> scores = random.normal(size=(400, 50))
    >>> relevant = random.random((400, 50)) < 1 / (1 + np.exp(3 - 2 * scores))
    >>> sure = sr.RankingCalibrator("recall").calibrate(scores[:300], relevant[:300])
    >>> sets = sure.predict_set(scores[300:], confidence=0.8)
    >>> len(sets), sets[0].tolist() == np.argsort(-scores[300])[: sets.sizes[0]].tolist()
    (100, True)
    >>> print(sure.guarantee(0.8))
    Recall of at least 80% on average over users: the set contains at least 80% of the relevant
    items of a user. Assumes users exchangeable with the ... calibration users.
    """

    def __init__(
        self,
        guarantee: str | GuaranteeKind = "recall",
        *,
        threshold: ThresholdChoice | None = None,
        horizon: str = "the relevant items of a user",
        n_learning: int = 2000,
        random_state: int = 0,
    ) -> None:
        self.kind = guarantee
        self.threshold = threshold
        self.horizon = horizon
        self.n_learning = n_learning
        self.random_state = random_state

    def __repr__(self) -> str:
        return f"RankingCalibrator({self.kind!r}, threshold={self.threshold!r})"

    def calibrate(self, scores: Any, relevant: Any = None, seen: Any = None) -> Self:
        """Calibrate on users whose relevant items are known.

        Parameters
        ----------
        scores : matrix, list of arrays, or iterator
            Users × items: numpy, scipy.sparse (other items have no score) or torch; or one array
            per user. An iterator yields blocks of users as ``(scores, relevant, seen)``, and only
            one block is in memory after the first `n_learning` users. NaN and −inf mean that an
            item has no score, and is in no set.
        relevant : matrix or list of arrays
            A boolean or sparse matrix, or the column numbers of each user. Users without relevant
            items do not calibrate.
        seen : matrix or list of arrays, optional
            Items that are not recommended, as `relevant`. Their number is the history length.

        Returns
        -------
        self

        Raises
        ------
        InputError
            If shapes differ, an item is both relevant and seen, or no user calibrates.
        """
        kind = self._validated()
        users = (row for row in _rows(blocks_of(scores, relevant, seen)) if len(row.relevant))
        head = list(islice(users, self.n_learning))
        if not head:
            raise InputError("No user has a relevant item. Pass relevant items of some users.")
        if all(np.ptp(row.scores[row.scores > -np.inf]) == 0 for row in head):
            raise InputError("All scores of each user are equal. Check the model.")
        threshold = "rank" if kind.tested else self.threshold
        outcomes, choice = _observed(head, self.random_state)
        entries, probabilities = entries_of(outcomes, choice, threshold, kind)
        self._set(unit_of(threshold, probabilities), probabilities)
        calibrates = np.ones(len(head), dtype=bool)
        if self._learned is not None:
            calibrates = ~self._learned.probabilities.chooses
        kept = calibrates[outcomes.owners]
        parts = [(entries[kept], np.bincount(outcomes.owners)[calibrates])]
        if not kind.tested:
            batches = iter(lambda: list(islice(users, _AT_ONCE)), [])
            parts += run_blocks(self._held_out, batches)
        entries, lengths = map(np.concatenate, zip(*parts, strict=True))
        self._set_curve(entries, np.repeat(np.arange(len(lengths)), lengths))
        return self

    def _validated(self) -> GuaranteeKind:
        if self.threshold is not None:
            check_choice("threshold", self.threshold, get_args(ThresholdChoice))
        check_text("horizon", self.horizon)
        check_whole("n_learning", self.n_learning)
        check_random_state(self.random_state)
        return find_guarantee(self.kind)

    def _set(self, unit: ThresholdChoice, probabilities: ItemProbabilities | None) -> None:
        self.threshold_ = unit
        self.threshold_sizes_ = sizes_by_unit(probabilities)
        self._probabilities, self._learned = probabilities, None
        if unit == "learned" and probabilities is not None:
            self._learned = LearnedThreshold(probabilities)

    def _set_curve(self, entries: NDArray[np.float64], owners: NDArray[np.int64]) -> None:
        kind, n_users = find_guarantee(self.kind), int(owners[-1]) + 1
        # A precision is tested on bins of items and has no curve of its own.
        kind = find_guarantee("recall") if kind.tested else kind
        self._curve = kind.curve(entries, owners, n_users)
        self.n_calibration_ = n_users

    def _held_out(self, rows: list[Row]) -> tuple[NDArray[np.float64], NDArray[np.int64]]:
        """Return the thresholds at which relevant items enter, and their number by user."""
        found = []
        for row in rows:
            if self.threshold_ == "rank":
                found.append(ranks_among(row.scores, row.outside(), row.relevant))
                continue
            ranking = row.ranking()
            entries = np.append(self._entries(ranking, len(row.seen)), np.inf)
            found.append(entries[ranking.places(row.relevant, len(row.scores))])
        return np.concatenate(found), np.array([len(each) for each in found])

    def _entries(self, ranking: Ranking, n_known: int) -> NDArray[np.float64]:
        if self._learned is not None:
            return self._learned.entries(ranking, n_known)
        return ranking.entries("score" if self.threshold_ == "score" else "rank")[:-1]

    @overload
    def predict_set(
        self, scores: Iterator[Any], *, confidence: float = ..., precision: float | None = ...
    ) -> Iterator[RankedSets]: ...

    @overload
    def predict_set(
        self,
        scores: Any,
        seen: Any = ...,
        confidence: float = ...,
        *,
        precision: float | None = ...,
    ) -> RankedSets: ...

    def predict_set(
        self,
        scores: Any,
        seen: Any = None,
        confidence: float = 0.9,
        *,
        precision: float | None = None,
    ) -> RankedSets | Iterator[RankedSets]:
        """Return the recommendation sets of users.

        Parameters
        ----------
        scores, seen
            As in :meth:`calibrate`. An iterator yields ``(scores, seen)`` or scores, and the result
            is an iterator of one :class:`RankedSets` per block.
        confidence : float, default=0.9
            The confidence; see :meth:`guarantee`.
        precision : float, optional
            The share of shown items that must be relevant, for a precision guarantee.
        """
        size_of = self._cut(confidence, precision)

        def one(rows: Iterable[Row]) -> RankedSets:
            found, n_items = [], 0
            for row in rows:
                ranking = row.ranking()
                found.append(ranking.items[: size_of(ranking, len(row.seen))])
                n_items = max(n_items, len(row.scores))
            offsets = np.cumsum([0, *map(len, found)])
            return RankedSets(offsets, np.concatenate([*found, np.empty(0, int)]), n_items)

        found: RankedSets | Iterator[RankedSets] = _by_block(one, scores, seen)
        return found

    def predict_proba(self, scores: Any, seen: Any = None) -> Any:
        """Return the calibrated probability that each item is relevant, users × items.

        Seen items and items without a score have NaN.

        Parameters
        ----------
        scores, seen
            As in :meth:`predict_set`. For an iterator the result is an iterator of matrices.
        """
        probabilities = self._with_probabilities()

        def one(rows: Iterable[Row]) -> NDArray[np.float64]:
            found = []
            for row in rows:
                ranking = row.ranking()
                likely = probabilities.probabilities(ranking.shares, len(row.seen)).probability
                found.append(np.full(len(row.scores), np.nan))
                found[-1][ranking.items] = likely
            width = max(map(len, found), default=0)
            pads = [np.full(width - len(each), np.nan) for each in found]
            return np.array([np.append(*two) for two in zip(found, pads, strict=True)])

        return _by_block(one, scores, seen)

    def _with_probabilities(self) -> ItemProbabilities:
        self._require_calibrated()
        if self._probabilities is None:
            raise InputError(f"There are no probabilities: {NO_PROBABILITIES}.")
        return self._probabilities

    def _require_calibrated(self) -> RiskCurve:
        if not hasattr(self, "_curve"):
            raise NotFittedError("This calibrator is not calibrated. Call calibrate first.")
        return self._curve

    def _served(self, precision: float | None, significance: float) -> Passed:
        """Return the tested threshold of a precision."""
        probabilities = self._with_probabilities()
        if precision is None:
            raise InputError("This calibrator guarantees precision. Pass precision=, such as 0.5.")
        share = check_number("precision", precision, 0, 1, "between 0 and 1")
        members = order_of_tests(len(probabilities.chooses))
        found = ServedList(probabilities, members, "users", "").passed(share, significance, None)
        assert found is not None  # noqa: S101  # raises otherwise
        return found

    def _cut(self, confidence: float, precision: float | None) -> Callable[[Ranking, int], int]:
        """Return a function of a ranking and a history length that returns the set size."""
        curve, significance = self._require_calibrated(), significance_of(confidence, None)
        if find_guarantee(self.kind).tested:
            first, bins = self._served(precision, significance), self._with_probabilities().bins
            return lambda ranking, n: int((bins.of(ranking.shares, n) >= first.threshold).sum())
        if precision is not None:
            raise InputError(f"This calibrator guarantees {self.kind}. Omit precision=.")
        at = curve.threshold(significance)
        return lambda ranking, n: int(np.searchsorted(self._entries(ranking, n), at, side="right"))

    def guarantee(self, confidence: float = 0.9, precision: float | None = None) -> Guarantee:
        """Return what the sets at a confidence guarantee, and to whom.

        Parameters
        ----------
        confidence, precision
            As in :meth:`predict_set`.
        """
        curve, significance = self._require_calibrated(), significance_of(confidence, None)
        kind, users, n = find_guarantee(self.kind), "users", self.n_calibration_
        lowest = curve.lowest_level()
        reason, loss, who = "", significance, "exchangeable with"
        if kind.tested:
            found = self._served(precision, significance)
            n, loss = found.n_testing, 1 - float(precision or 0)
            who = "drawn independently, as"
        elif significance + TOLERANCE < lowest:
            lost = kind.unknown(curve.unknown_loss, "without a score")
            why = f"; {lost}" if curve.unknown_loss else ""
            reason = (
                f"{counted(n, 'calibration users')} support at most {100 * (1 - lowest):.4g}% "
                f"confidence, so every scored item is in the set{why}"
            )
        claim = kind.sentence(loss, self.horizon, users)
        if kind.tested:
            claim += f", with {100 * (1 - significance):.6g}% confidence"
        return Guarantee(
            kind=kind.name,
            level=level_of(significance),
            precision=precision,
            claim=claim,
            horizon=self.horizon,
            n_calibration=n,
            covers=users,
            assumptions=(f"Assumes users {who} the {n:,} calibration users.",),
        ).broken(reason)

    def save(self, path: str | os.PathLike[str]) -> None:
        """Save the calibration in one file, without pickle; an existing file is replaced.

        It contains no ids, but outcomes of single users: protect it like the data.
        """
        curve = self._require_calibrated()
        settings = {"threshold": self.threshold_, "horizon": self.horizon}
        settings |= {"guarantee": find_guarantee(self.kind).name, "format": _FORMAT}
        state = State({"entries": curve.entries, "owners": curve.owners})
        if self._probabilities is not None:
            state |= self._probabilities.state().under(_PROBABILITIES)
        arrays: dict[str, Any] = {"settings": np.array(json.dumps(settings)), **state.arrays}
        with file_aside(check_path("path", path)) as aside, aside.open("wb") as file:
            np.savez(file, **arrays)

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> RankingCalibrator:
        """Load a saved calibration; raise InputError if the file is not one."""
        place = check_path("path", path)
        try:
            with place.open("rb") as raw, np.load(raw, allow_pickle=False) as file:
                return cls._restored(dict(file))
        except FileNotFoundError:
            raise InputError(f"There is no file {place}. Pass a file that save wrote.") from None
        except (OSError, KeyError, ValueError, TypeError, AttributeError, BadZipFile) as error:
            raise InputError(
                f"{place} is no saved calibration, or damaged ({error}). Save it again."
            ) from None

    @classmethod
    def _restored(cls, arrays: dict[str, NDArray[Any]]) -> RankingCalibrator:
        """Build it from saved arrays; raise KeyError, TypeError or ValueError if one is invalid."""
        settings = json.loads(str(arrays.pop("settings")))
        if settings.pop("format") != _FORMAT:
            raise ValueError("it has another format")
        found = cls(**settings)
        found._validated()
        stored, own = State(arrays).split(_PROBABILITIES)
        check_arrays("a calibration", _SCHEMAS, own.arrays)
        owners, probabilities = own.arrays["owners"], None
        if not len(owners) or not np.isin(np.diff(owners, prepend=0), (0, 1)).all():
            raise ValueError("its calibration users are incomplete")
        if not stored.is_empty:
            probabilities = ItemProbabilities.from_state(stored, len(stored.arrays["n_known"]))
        found._set(unit_of(found.threshold, probabilities), probabilities)
        found._set_curve(own.arrays["entries"], owners)
        return found


def _rows(blocks: Iterable[tuple[Any, ...]]) -> Iterator[Row]:
    n_before = 0
    for block in blocks:
        for row in rows_of(block[0], block[1], block[2], n_before):
            yield row
            n_before += 1


def _by_block(one: Callable[[Iterable[Row]], Any], scores: Any, seen: Any) -> Any:
    """Return the answer to one block, or an iterator of answers to an iterator of blocks."""
    answers = (one(rows_of(some, seen=known)) for some, known in blocks_of(scores, seen))
    return answers if isinstance(scores, Iterator) else next(answers)


def _observed(rows: list[Row], random_state: int) -> tuple[Outcomes, Choice | None]:
    """Return the outcomes of users, counted by the bins that one in four of them choose."""
    n_items = max(len(row.scores) for row in rows)
    nothing = Interactions.no_users(0)

    def observed(some: NDArray[np.intp], bins: Bins | None = None, n_kept: int = 0) -> Outcomes:
        n_known = np.array([len(rows[user].seen) for user in some])
        n_future = np.array([len(rows[user].relevant) for user in some])
        cases = Cases(nothing, some, n_known, n_known + n_future)
        found = Outcomes.blank(cases, n_future, n_kept=n_kept, bins=bins)
        for case, user in enumerate(some.tolist()):
            row = rows[user]
            found.record(case, row.ranking(), row.relevant, len(row.seen), n_items, bins)
        return found

    every = np.arange(len(rows))
    choice = choose_among(every, n_items, partial(observed, n_kept=n_items), random_state)
    return observed(every, None if choice is None else choice.bins), choice
