"""User-level calibration by conformal risk control, which respects time order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from surerec._state import State
from surerec._words import DAY, counted, day_of
from surerec.calibration._calibration import BestOfMany, Calibration, UserAssessment
from surerec.calibration._calibration_users import (
    CalibrationUsers,
    NamedItems,
    UserSegments,
)
from surerec.calibration._guarantee import Guarantee, in_singular, level_of
from surerec.calibration._held_out import Cases
from surerec.calibration._learned import LearnedThreshold, unit_of
from surerec.calibration._probabilities import FEWEST_USERS, ItemProbabilities
from surerec.calibration._ranking import (
    Ranking,
    best_by_block,
    rank_items,
    ranks_together,
)
from surerec.calibration._regressions import list_features, list_hits
from surerec.conformal import TOLERANCE, CalibratedProbability, RiskCurve, users_needed
from surerec.errors import InputError
from surerec.interactions import Segmentation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._calibration import Assessment, UserCoverage
    from surerec.calibration._guarantee import GuaranteeKind, ThresholdChoice
    from surerec.calibration._held_out import Horizon
    from surerec.calibration._ranking import Best
    from surerec.calibration._regressions import Weights
    from surerec.interactions import Interactions
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

NO_PROBABILITIES: Final = (
    f"they need at least {FEWEST_USERS} calibration users; a live model that forgot a calibration "
    "user has none until it is refitted"
)
SWAYED: Final = "this user's held-out interactions decided how items are compared"
_EXCHANGEABLE: Final = (
    "Assumes users exchangeable with the {n} calibration users ({period}) and no drift since"
)
_PREFIXES: Final = ("probabilities_", "segments_", "list_")


@dataclass(frozen=True)
class UserCalibration(Calibration):
    """Uses, at ε, the smallest threshold at which the calibration users lose at most ε on average.

    Parameters
    ----------
    users : CalibrationUsers
        The ranks of the calibration users' held-out items.
    guarantee_kind : GuaranteeKind
        Defines a user's loss.
    horizon : float or int
        Length of the held-out interactions.
    window : float or None
        Their days, for a temporal split.
    threshold : {"rank", "score", "learned"}
        Unit of the thresholds. If learned, the users who chose the scale do not calibrate.
    n_groups : int
        Number of segments by history length, each with its own threshold.
    min_history : int
        Users with fewer known items are not covered.
    coverage : UserCoverage
        Who is covered.
    about : str
        Text for the held-out interactions, if neither horizon nor window describes them.
    segmentation : Segmentation, optional
        Segments of users by a column, each with its own thresholds.
    lacking : str
        Why no set can contain some held-out items, such as "unknown to the model".
    probabilities : ItemProbabilities or None
        Calibrates the probabilities of items; None if there are none.
    listed : NamedItems or None
        The item list it was calibrated on: only these items are candidates.
    """

    users: CalibrationUsers
    guarantee_kind: GuaranteeKind
    horizon: Horizon
    window: float | None
    threshold: ThresholdChoice
    n_groups: int
    min_history: int
    coverage: UserCoverage
    about: str = ""
    segmentation: Segmentation | None = None
    lacking: str = "unknown to the model"
    probabilities: ItemProbabilities | None = None
    listed: NamedItems | None = None

    def __post_init__(self) -> None:
        if not self.guarantee_kind.monotone:
            raise InputError(
                f"Risk control cannot guarantee {self.guarantee_kind.name!r}: a user's loss may "
                "grow with the set. Use a guarantee with monotone=True."
            )

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What a request may ask for."""
        found = {"confidence", "levels", "item_lists", "hits", "period"}
        if self.probabilities is not None:
            found |= {"probability"}
            found |= {"min_probability"} if self.probabilities.tells_items_apart else set()
        found |= set() if self.segmentation is None else {"segments"}
        return frozenset(found)

    @cached_property
    def reasons(self) -> dict[str, str]:  # type: ignore[override]
        """Why features are missing."""
        return {
            "probability": f"There are no probabilities: {NO_PROBABILITIES}.",
            "min_probability": (
                "Every item has the same probability, as the scorer does not separate consumed "
                "items from others. Use a better scorer, or omit min_probability."
            ),
            "precision": (
                f"This recommender guarantees {self.guarantee_kind.name}, not precision. Fit "
                'PopulationConformal(guarantee="precision"), or precision-cm12 on the command line.'
            ),
        }

    def state(self) -> State:
        """Return the calibration users, probabilities, segments and item list."""
        found = self.users.state()
        parts = self.probabilities, self.segmentation, self.listed
        for prefix, each in zip(_PREFIXES, parts, strict=True):
            found |= State() if each is None else each.state().under(prefix)
        return found

    @classmethod
    def from_state(
        cls, state: State, statistics: PrecedenceStatistics, column: str | None, **settings: Any
    ) -> Self:
        """Load it; raise KeyError or ValueError if arrays or texts are invalid.

        Parameters
        ----------
        state : State
            What :meth:`state` returned.
        statistics : PrecedenceStatistics
            Statistics of the model that it belongs to.
        column : str or None
            Column of the segments.
        **settings
            The other parameters of the class.
        """
        probabilities, state = state.split(_PREFIXES[0])
        segments, state = state.split(_PREFIXES[1])
        listed, state = state.split(_PREFIXES[2])
        State(texts=state.texts).require_empty("a calibration")
        if (column is None) != segments.is_empty:
            raise ValueError("its segments are missing, or not its own")
        n_users = statistics.n_user_codes
        users = CalibrationUsers.from_state(state, n_users)
        kept = None
        if not probabilities.is_empty:
            kept = ItemProbabilities.from_state(probabilities, len(users))
        settings["threshold"] = unit_of(settings["threshold"], kept)
        return cls(
            users=users,
            probabilities=kept,
            segmentation=None
            if column is None
            else Segmentation.from_state(segments, column, n_users),
            listed=None if listed.is_empty else NamedItems.from_state(listed, statistics.n_items),
            **settings,
        )

    def headline(self, confidence: float) -> str:
        """Return a short description of the guarantee."""
        return self.guarantee_kind.headline(confidence)

    @property
    def period(self) -> tuple[int, int]:  # type: ignore[override]
        """The times between which calibration users' held-out interactions lie."""
        begin, end = self.users.period
        return int(begin), int(end)

    @property
    def valid_until(self) -> int | None:  # type: ignore[override]
        """The end of the window that a temporal split was calibrated for."""
        return None if self.window is None else self.period[1] + int(self.window * DAY)

    def has_user(self, user: int) -> bool:
        """Return whether a user, by code, is a calibration user."""
        return self.users.place_of(user) is not None

    def without(self, user: int) -> UserCalibration:
        """Return the calibration without a user, by code.

        It loses its probabilities, unless thresholds are learned from them.
        """
        place, kept = self.users.place_of(user), None
        if self.threshold == "learned" and self.probabilities is not None and place is not None:
            kept = self.probabilities.without(place)
        return replace(self, users=self.users.without(place), probabilities=kept)

    @property
    def covers(self) -> str:
        """Who is covered, as text."""
        return self.coverage.users

    @property
    def assumes(self) -> str:
        """What is assumed besides exchangeable users, as text; empty if nothing."""
        return self.coverage.assumes

    @cached_property
    def _segments(self) -> UserSegments:
        coverage = self.coverage
        return UserSegments(
            self.users,
            self.guarantee_kind,
            self.n_groups,
            self.segmentation,
            self.calibrates,
            coverage.in_fit if coverage.of_the_fit is None else None,
        )

    @cached_property
    def _learned(self) -> LearnedThreshold | None:
        if self.threshold != "learned" or self.probabilities is None:
            return None
        return LearnedThreshold(self.probabilities)

    @cached_property
    def calibrates(self) -> NDArray[np.bool_]:
        """Which calibration users calibrate thresholds: all but those who learned them."""
        if self.threshold != "learned" or self.probabilities is None:
            return np.ones(len(self.users), dtype=bool)
        return ~self.probabilities.chooses

    @property
    def curve(self) -> RiskCurve:
        """The risk curve of all users who calibrate."""
        return self.users.curve(self.guarantee_kind).of_owners(self.calibrates)

    def _entries(self, ranking: Ranking, query: Query) -> NDArray[np.float64]:
        """Return the threshold at which each item enters, best first; the last is for unranked."""
        if self._learned is None:
            return ranking.entries("score" if self.threshold == "score" else "rank")
        place = self.users.place_of(query.user)
        return np.append(self._learned.entries(ranking, len(query.history), place), 0.0)

    @property
    def _future(self) -> str:
        """The held-out interactions that a guarantee covers, as text."""
        future = self.about or held_out_text(self.horizon, self.window)
        if self.listed is None:
            return future
        return f"the items of the list {self.listed.name!r} among {future}"

    def _covered(self, segment: str = "", *, all_segments: bool = False) -> str:
        """Return who is covered, as text: one segment, or each of all segments."""
        users = self.coverage.users + (f" with {segment}" if segment else "")
        one = self.n_groups == 1 and self.segmentation is None
        if all_segments and not (one and self.coverage.of_the_fit is not None):
            users += " of each segment"
        if self.listed is None:
            return users
        n = len(self.listed.codes)
        return f"{users} who consume at least one of the {n:,} items of the list"

    def _stated(self, n_users: int, *, assumption: str = _EXCHANGEABLE, **fields: Any) -> Guarantee:
        """Return a guarantee with its assumptions.

        `assumption` is the assumption about users; `fields` are the other fields of the guarantee.
        """
        begin, end = map(day_of, self.period)
        also = f", and that {self.coverage.assumes}" if self.coverage.assumes else ""
        per_user_split = self.window is None and not self.about
        return Guarantee(
            horizon=self._future, n_calibration=n_users, period=(begin, end), **fields
        ).assuming(
            f"{assumption.format(n=f'{n_users:,}', period=f'{begin} to {end}')}{also}.",
            # Histories are split at different times, so statistics include later interactions.
            "Scores used later interactions of other users." if per_user_split else "",
        )

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> UserAssessment:
        """Return, for each candidate, the ε below which it is in the set."""
        query = query.known_to(statistics)
        fields, at = self._assessed(scorer, statistics, query, candidates)
        curve, own, segment = self._segments.curve_of(query)
        # In ranking order, which is the fastest.
        levels = curve.levels(self._entries(fields["ranking"], query), without=own)[at]
        if scorer.is_partial:
            levels = np.where(fields["score"] > -np.inf, levels, 0.0)  # in no set
        return UserAssessment(
            **fields,
            n_calibration=curve.n_users - (own is not None),
            levels_below=levels,
            lowest_level=curve.lowest_level(without=own),
            segment=segment,
            at=at,
        )

    def _assessed(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Return the fields of a user's assessment, and the place of each candidate in the ranking.

        All items are ranked, or all of the item list, whatever else is allowed, so that ranks and
        shares mean the same as in calibration.
        """
        scores = scorer.score_query(query)
        ranking, values = rank_items(scorer, statistics, query, scores, self._listed_codes)
        at, gap = ranking.places(candidates, statistics.n_items), self.gap(scorer, query)
        probabilities, about = self._probabilities(query, ranking, at, gap)
        fields = {
            "candidates": candidates,
            "score": scores[candidates],
            "shown": values[candidates].__getitem__,
            "popularity": statistics.popularity,
            "gap": gap or self._segments.gap(query),
            "probabilities": probabilities,
            "about_probabilities": about,
            "ranking": ranking,
        }
        return fields, at

    def level(
        self, scorer: Scorer, statistics: PrecedenceStatistics, query: Query, item: int
    ) -> float:
        """Return the ε below which one candidate is in the set, as :meth:`assess` does.

        It computes nothing else, so that evaluating an event costs little more than a ranking.
        """
        query = query.known_to(statistics)
        scores = scorer.score_query(query)
        if scorer.is_partial and not scores[item] > -np.inf:
            return 0.0  # in no set
        ranking, _ = rank_items(scorer, statistics, query, scores, self._listed_codes)
        curve, own, _ = self._segments.curve_of(query)
        at = ranking.places(np.array([item]), statistics.n_items)
        return float(curve.levels(self._entries(ranking, query)[at], without=own)[0])

    @property
    def _listed_codes(self) -> NDArray[np.int64] | None:
        return None if self.listed is None else self.listed.codes

    def _probabilities(
        self, query: Query, ranking: Ranking, at: NDArray[np.int64], gap: str
    ) -> tuple[Callable[[NDArray[np.intp]], CalibratedProbability], str]:
        """Return a function that computes candidates' probabilities, and a text on what they mean.

        `at` is what :meth:`surerec.calibration.Ranking.places` returns. The function computes the
        ranking down to the last requested candidate. Uncovered users get NaN and the reason.
        """
        place, probabilities = self.users.place_of(query.user), self.probabilities
        swayed = probabilities is not None and place is not None and probabilities.swayed[place]
        reason = gap or (NO_PROBABILITIES if probabilities is None else SWAYED if swayed else "")

        def some(places: NDArray[np.intp]) -> CalibratedProbability:
            ranked = at[places]
            best = ranking.shares[: int(ranked.max(initial=-1)) + 1]
            found = np.full((3, len(best) + 1), np.nan)  # the last column is for unranked items
            if probabilities is not None and not reason:
                found[:, :-1] = probabilities.probabilities(best, len(query.history), place)
            return CalibratedProbability(*found[:, ranked])

        if reason or probabilities is None:
            return some, f"No probabilities: {reason}."
        is_in_it = place is not None and not probabilities.chooses[place]
        begin, end = map(day_of, self.period)
        also = f", and if {self.coverage.assumes}" if self.coverage.assumes else ""
        claim = in_singular(f"The probability that the item is among {self._future}")
        return some, (
            f"{claim}, over {self._covered()}. "
            f"Measured, not proven, on {probabilities.curve.n_users - is_in_it:,} calibration "
            f"users ({begin} to {end}){also}: about that share of items with such a rank, score "
            "and history length was consumed. The interval is a 95% confidence interval of that "
            "share over the sample of calibration users."
        )

    def _probabilities_of_many(
        self, queries: Sequence[Query], best: Best, gaps: Sequence[str]
    ) -> CalibratedProbability:
        """Return the probabilities of the best items of several users; NaN where there are none."""
        found = np.full((3, len(best.items)), np.nan)
        if self.probabilities is not None:
            n_known = np.array([len(query.history) for query in queries])
            places = self.users.places_of(queries)
            covered = np.array([not gap for gap in gaps])
            covered &= (places < 0) | ~self.probabilities.swayed[places]
            rows = np.flatnonzero(covered[best.owners])
            found[:, rows] = self.probabilities.probabilities_of_many(
                best.shares[rows], best.ranks[rows], best.owners[rows], n_known, places
            )
        return CalibratedProbability(*found)

    def best_of_many(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        queries: Queries,
        significance: float,
        k: int | None,
        in_set: bool = True,  # noqa: FBT001, FBT002
    ) -> BestOfMany | None:
        """Return the best items of many users, if the scorer scores users in batches."""
        if self.listed is not None or not ranks_together(scorer, statistics):
            return None
        lowest = significance + TOLERANCE if in_set else -1.0  # below every level
        if k is None and in_set and self.threshold == "rank":
            k = self._segments.most(significance, statistics.n_items)
        parts: list[tuple[NDArray[Any], ...]] = []
        covered: list[NDArray[np.bool_]] = []
        n_before = 0
        learned = self._learned is not None  # from all candidates of a user
        for some, whole in best_by_block(scorer, statistics, queries, None if learned else k):
            first = whole.ranks <= (statistics.n_items if k is None else k)
            ranked, entries = whole.only(first), self._entries_of_many(some, whole)[first]
            levels = self._segments.levels(some, ranked.owners, entries)
            inside = levels > lowest
            best = ranked.only(inside)
            gaps = [self.gap(scorer, query) for query in some]
            likely = self._probabilities_of_many(some, best, gaps)
            everything = np.full(len(some), np.inf)
            floors = self._segments.levels(some, np.arange(len(some)), everything)
            pairs = zip(gaps, some, strict=True)
            uncovered = [bool(gap or self._segments.gap(query)) for gap, query in pairs]
            covered.append((significance + TOLERANCE >= floors) & ~np.array(uncovered))
            parts.append((best.owners + n_before, *best[1:4], 1 - levels[inside], *likely))
            n_before += len(some)
        owners, items, ranks, values, confidences, *probabilities = map(
            np.concatenate, zip(*parts, strict=True)
        )
        return BestOfMany(
            owners=owners,
            items=items,
            ranks=ranks,
            scores=values,
            p_values=None,
            entry_confidences=confidences,
            covered=np.concatenate(covered),
            probabilities=CalibratedProbability(*probabilities),
        )

    def _entries_of_many(self, queries: Sequence[Query], ranked: Best) -> NDArray[np.float64]:
        """Return the thresholds at which the items of several users enter."""
        if self._learned is None:
            return ranked.ranks.astype(np.float64) if self.threshold == "rank" else -ranked.shares
        ends = np.searchsorted(ranked.owners, np.arange(len(queries) + 1)).tolist()
        whole = Ranking(ranked.items, ranked.values, ranked.shares)
        parts = zip(queries, (whole.part(*two) for two in pairwise(ends)), strict=True)
        return np.concatenate([self._entries(part, query)[:-1] for query, part in parts])

    def list_hits(
        self,
        queries: Sequence[Query],
        assessments: Sequence[Assessment],
        lengths: Sequence[int],
    ) -> CalibratedProbability:
        """Return the probabilities of at least one, two and three hits in lists, 3 × users.

        The lists contain the users' best items. Empty lists and uncovered users get NaN.
        """
        n = np.where([bool(each.gap) for each in assessments], 0, lengths)
        at = np.maximum(n, 1) - 1
        of_best = [each.ranking.of_the_best() for each in assessments if each.ranking is not None]
        features = list_features(
            np.array([len(query.history) for query in queries]),
            np.array([best[place] for (best, _), place in zip(of_best, at, strict=True)]),
            np.array([mass[place] for (_, mass), place in zip(of_best, at, strict=True)]),
        )
        places = self.users.places_of(queries)
        given = self.probabilities
        ranks = self.users.first_ranks[:, None] if given is None else given.hit_ranks
        found = list_hits(self.users, ranks, at + 1, features, places, self._hit_weights)
        for part in found:
            part[:, n == 0] = np.nan
        return found

    @cached_property
    def _hit_weights(self) -> dict[tuple[int, int, int], Weights]:
        return {}

    def guarantee(self, significance: float, assessment: UserAssessment | None = None) -> Guarantee:
        """Return what the confidence guarantees, to one user or to all covered users."""
        n, covers = int(self.calibrates.sum()), self._covered(all_segments=True)
        if assessment is not None:
            n, covers = assessment.n_calibration, self._covered(assessment.segment)
        return self._stated(
            n,
            kind=self.guarantee_kind.name,
            level=level_of(significance),
            claim=self.guarantee_kind.sentence(significance, self._future, covers),
            covers=covers,
        )

    def about_hits(self, query: Query, n_items: int) -> str:
        """Return what the probability of at least one hit means, as text."""
        n_others = len(self.users)
        if self.users.place_of(query.user) is not None:
            n_others -= len(self.users) // 10  # the fold of the user
        best = "the best item" if n_items == 1 else f"at least one of the {n_items} best items"
        users = f"{self._covered()} with this probability"
        claim = in_singular(f"For that share of {users}, {best} is among {self._future}")
        return str(self._stated(n_others, kind="hit", claim=claim, covers=users))

    def beyond(self, significance: float, assessment: Assessment) -> str:
        """Return why a confidence cannot be supported: too few users, or unknown items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        n_held = assessment.size(significance)
        qualify = "every item qualifies"
        if n_held < len(assessment.candidates):  # the scorer does not score the others
            qualify = f"all {n_held:,} scored items qualify"
        if n < needed:
            segment = getattr(assessment, "segment", "")
            return (
                f"{100 * (1 - significance):.6g}% confidence needs at least {needed:,} calibration "
                f"users{f' with {segment}' if segment else ''}, and there "
                f"{'is' if n == 1 else 'are'} {n:,}, so {qualify}"
            )
        # The lowest level of this segment's users is (Σ unknown losses + 1) / (n + 1).
        unknown = ((1 - assessment.highest_confidence) * (n + 1) - 1) / n
        return (
            f"{self.guarantee_kind.unknown(unknown, self.lacking)}, so no set of known items "
            f"supports more than {100 * assessment.highest_confidence:.4g}% confidence, and "
            f"{qualify}"
        )

    def gap(self, scorer: Scorer, query: Query) -> str:
        """Return why the guarantee does not cover a user; empty if it does."""
        place, learned = self.users.place_of(query.user), self._learned
        gap = self.coverage.gap(scorer, query, place)
        if gap:
            return gap
        if place is not None and learned is not None and learned.probabilities.swayed[place]:
            return SWAYED
        if len(query.history) < self.min_history:
            return (
                f"this user has {counted(len(query.history), 'known items')}, and calibration "
                f"users had at least {self.min_history}"
            )
        return ""


def next_items(n: int) -> str:
    """Return a horizon of n items as text.

    Examples
    --------
    >>> next_items(1), next_items(5)
    ('the next item new to the user', 'the next 5 items new to the user')
    """
    return "the next item new to the user" if n == 1 else f"the next {n} items new to the user"


def held_out_text(horizon: Horizon, window: float | None = None, span: str = "") -> str:
    """Return the held-out interactions as text; `span` is a text for the period, if known.

    Examples
    --------
    >>> held_out_text(0.4), held_out_text(0.4, 30.0)
    ('what a user consumes next (the last 40% of a history, without repeats)', 'what a user
    consumes in the next 30 days (without repeats)')
    """
    if not isinstance(horizon, float):
        within = "" if window is None else f"within {window:g} days"
        return " ".join(filter(None, (next_items(horizon), span or within)))
    if span or window is not None:
        return f"what a user consumes {span or f'in the next {window:g} days'} (without repeats)"
    return f"what a user consumes next (the last {horizon:.0%} of a history, without repeats)"


def cases_of(calibration: UserCalibration, interactions: Interactions) -> Cases:
    """Return the calibration users' cases, rebuilt from the interactions of the served model."""
    users, probabilities = calibration.users, calibration.probabilities
    if probabilities is None:
        raise InputError(
            f"Item lists and groups need at least {FEWEST_USERS} calibration users, and this model "
            "has fewer. Fit it on more users."
        )
    known = interactions.offsets[users.users] + users.n_before
    stops = known + np.bincount(users.owners, minlength=len(users))
    if (users.users < 0).any() or (stops > interactions.offsets[users.users + 1]).any():
        raise InputError(
            "This model was recalibrated without a refit, so it lacks the held-out interactions "
            "of its calibration users. Recalibrate it with refit=True first."
        )
    begin = int(probabilities.begin[0])
    return Cases(interactions, users.users, known, stops, None if begin < 0 else begin)
