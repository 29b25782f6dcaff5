"""User-level calibration, by conformal risk control: it holds in time order."""

from __future__ import annotations

from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np

from surerec._state import State
from surerec._words import DAY, day_of
from surerec.calibration._calibration import BestOfMany, Calibration, UserAssessment
from surerec.calibration._calibration_users import (
    CalibrationUsers,
    NamedItems,
    UserSegments,
)
from surerec.calibration._guarantee import NEW_ITEMS, Guarantee, level_of
from surerec.calibration._held_out import Cases
from surerec.calibration._probabilities import FEWEST_USERS, ItemProbabilities
from surerec.calibration._ranking import (
    best_by_block,
    rank_items,
    ranks_together,
)
from surerec.calibration._regressions import list_features, list_hits
from surerec.conformal import TOLERANCE, CalibratedProbability, users_needed
from surerec.errors import InputError
from surerec.interactions import Segmentation

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence

    from numpy.typing import NDArray

    from surerec.calibration._calibration import Assessment, UserCoverage
    from surerec.calibration._guarantee import GuaranteeKind, ThresholdUnit
    from surerec.calibration._held_out import Horizon
    from surerec.calibration._ranking import Best, Ranking
    from surerec.calibration._regressions import Weights
    from surerec.interactions import Interactions
    from surerec.measures import Queries, Query, Scorer
    from surerec.precedence import PrecedenceStatistics

NO_PROBABILITIES: Final = (
    f"they need at least {FEWEST_USERS} users who can calibrate; a live model that forgot one of "
    "these users has none before it is counted anew"
)
SWAYED: Final = "what this user took next tipped the choice of how items are compared"
_EXCHANGEABLE: Final = (
    "Assumes users exchangeable with the {n} calibration users ({period}) and no drift since."
)
_PREFIXES: Final = ("chances_", "segments_", "list_")


@dataclass(frozen=True)
class UserCalibration(Calibration):
    """At ε, the smallest cut with which the calibration users lose no more than ε.

    Parameters
    ----------
    users : CalibrationUsers
        Where their futures had been ranked.
    promised : Promise
        What a person loses as the set grows.
    horizon : float or int
        The future that it is about.
    window : float or None
        The days of that future, if it was cut by the calendar.
    threshold : {"rank", "score"}
        Where sets are cut.
    n_groups : int
        How many groups of people, by the number of known items, have a threshold of their own.
    min_history : int
        People of whom less is known are promised nothing.
    coverage : UserCoverage
        Whom it says anything about.
    about : str
        The future that it is about in words, where neither the horizon nor the window says it.
    people : Segmentation, optional
        Groups by a column of people's own, each with thresholds of its own.
    lacking : str
        What a future item was that no set can hold, in words.
    chances : ItemProbabilities or None
        What probabilities of items are calibrated on; None if there are none.
    listed : NamedItems or None
        The only items that are candidates, if it was calibrated on a named list.
    """

    users: CalibrationUsers
    guarantee_kind: GuaranteeKind
    horizon: Horizon
    window: float | None
    threshold: ThresholdUnit
    n_groups: int
    min_history: int
    coverage: UserCoverage
    about: str = ""
    people: Segmentation | None = None
    lacking: str = "unknown to the model"
    probabilities: ItemProbabilities | None = None
    listed: NamedItems | None = None

    def __post_init__(self) -> None:
        if not self.guarantee_kind.monotone:
            raise InputError(
                f"Risk control cannot guarantee {self.guarantee_kind.name!r}: a user's loss may "
                "grow with the set."
            )

    @cached_property
    def features(self) -> frozenset[str]:  # type: ignore[override]
        """What a request may ask for."""
        found = {"confidence", "levels", "item_lists", "hits", "period"}
        if self.probabilities is not None:
            found |= {"probability"}
            found |= {"min_probability"} if self.probabilities.tells_items_apart else set()
        found |= set() if self.people is None else {"segments"}
        return frozenset(found)

    @cached_property
    def reasons(self) -> dict[str, str]:  # type: ignore[override]
        """Why features are missing."""
        return {
            "probability": f"There are no probabilities: {NO_PROBABILITIES}.",
            "min_probability": (
                "Every item has the same probability: the scorer does not tell what people take "
                "from what they do not, so min_probability cannot choose."
            ),
            "precision": (
                f"This recommender promises {self.guarantee_kind.name}, not precision: fit "
                'PopulationConformal(guarantee="precision"), on the command line precision-cm12.'
            ),
        }

    def state(self) -> State:
        """Return the calibration users, their probabilities, segments, and the item list."""
        found = self.users.state()
        for prefix, each in zip(
            _PREFIXES, (self.probabilities, self.people, self.listed), strict=True
        ):
            found |= State() if each is None else each.state().under(prefix)
        return found

    @classmethod
    def from_state(
        cls, state: State, statistics: PrecedenceStatistics, column: str | None, **settings: Any
    ) -> Self:
        """Read it back; KeyError or ValueError if these are not its arrays and texts.

        Parameters
        ----------
        state : State
            What :meth:`state` returned.
        statistics : PrecedenceStatistics
            What is known of its users and items.
        column : str or None
            What tells segments apart.
        **settings
            The other parameters of the class.
        """
        probabilities, state = state.split(_PREFIXES[0])
        people, state = state.split(_PREFIXES[1])
        listed, state = state.split(_PREFIXES[2])
        State(texts=state.texts).require_empty("a calibration")
        if (column is None) != people.is_empty:
            raise ValueError("its segments are missing, or not its own")
        n_users = statistics.n_user_codes
        users = CalibrationUsers.from_state(state, n_users)
        return cls(
            users=users,
            probabilities=None
            if probabilities.is_empty
            else ItemProbabilities.from_state(probabilities, len(users)),
            people=None if column is None else Segmentation.from_state(people, column, n_users),
            listed=None if listed.is_empty else NamedItems.from_state(listed, statistics.n_items),
            **settings,
        )

    def headline(self, confidence: float) -> str:
        """Return what is guaranteed in a few words."""
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
        """Return whether a user, by code, calibrates."""
        return self.users.place_of(user) is not None

    def without(self, user: int) -> UserCalibration:
        """Return the calibration without a user, by code; probabilities do not outlast one."""
        return replace(
            self, users=self.users.without(self.users.place_of(user)), probabilities=None
        )

    @property
    def covers(self) -> str:
        """Who is covered, in words."""
        return self.coverage.people

    @property
    def assumes(self) -> str:
        """What is assumed beside exchangeable users, in words; empty if nothing."""
        return self.coverage.assumes

    @cached_property
    def _segments(self) -> UserSegments:
        return UserSegments(self.users, self.guarantee_kind, self.n_groups, self.people)

    @property
    def _future(self) -> str:
        """The future that a guarantee covers, in words."""
        future = self.about
        if not future and isinstance(self.horizon, float):
            window = "" if self.window is None else f"{NEW_ITEMS} in the next {self.window:g} days"
            future = window or f"the last {self.horizon:.0%} of {NEW_ITEMS}"
        elif not future and not isinstance(self.horizon, float):
            within = "" if self.window is None else f" within {self.window:g} days"
            future = f"{next_items(self.horizon)}{within}"
        if self.listed is None:
            return future
        return f"the items of the list {self.listed.name!r} in {future}"

    def _covered(self, segment: str = "") -> str:
        """Return who is covered, in words."""
        users = self.coverage.people + (f" with {segment}" if segment else "")
        if self.listed is None:
            return users
        n = len(self.listed.codes)
        return f"{users} who consume at least one of the {n:,} items of the list"

    def _stated(self, n_users: int, *, alike: str = _EXCHANGEABLE, **fields: Any) -> Guarantee:
        """Return a guarantee by so many calibration users, with its assumptions.

        `alike` says what it assumes of users; the other fields are given.
        """
        begin, end = map(day_of, self.period)
        also, by_profile = self.coverage.assumes, self.window is None and not self.about
        return Guarantee(
            horizon=self._future, n_calibration=n_users, period=(begin, end), **fields
        ).assuming(
            alike.format(n=f"{n_users:,}", period=f"{begin} to {end}"),
            f"Assumes that {also}." if also else "",
            # Each user is split at a moment of their own: counts know what follows it.
            "The scores also used later interactions of other users." if by_profile else "",
        )

    def assess(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> UserAssessment:
        """Return the ε below which every candidate is in the set."""
        query = query.known_to(statistics)
        fields, at = self._assessed(scorer, statistics, query, candidates)
        curve, own, segment = self._segments.curve_of(query)
        # In the order of the ranking, as that finds them fastest.
        levels = curve.levels(fields["ranking"].entries(self.threshold), without=own)[at]
        if scorer.is_partial:
            levels = np.where(fields["score"] > -np.inf, levels, 0.0)  # in no set
        return UserAssessment(
            **fields,
            n_calibration=curve.n_users - (own is not None),
            levels_below=levels,
            lowest_level=curve.lowest_level(without=own),
            group=segment,
            at=at,
        )

    def _assessed(
        self,
        scorer: Scorer,
        statistics: PrecedenceStatistics,
        query: Query,
        candidates: NDArray[np.int64],
    ) -> tuple[dict[str, Any], NDArray[np.int64]]:
        """Return the fields of every assessment of a user, and where candidates are ranked.

        All items are ranked, or all of the item list, whatever else is allowed: ranks and shares
        must mean what they meant in calibration.
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
        """Return the ε below which one candidate is in the set, as :meth:`assess` has it.

        Nothing else is looked at, so that judging an event costs little more than a ranking.
        """
        query = query.known_to(statistics)
        scores = scorer.score_query(query)
        if scorer.is_partial and not scores[item] > -np.inf:
            return 0.0  # in no set
        ranking, _ = rank_items(scorer, statistics, query, scores, self._listed_codes)
        curve, own, _ = self._segments.curve_of(query)
        at = ranking.places(np.array([item]), statistics.n_items)
        return float(curve.levels(ranking.entries(self.threshold)[at], without=own)[0])

    @property
    def _listed_codes(self) -> NDArray[np.int64] | None:
        return None if self.listed is None else self.listed.codes

    def _probabilities(
        self, query: Query, ranking: Ranking, at: NDArray[np.int64], gap: str
    ) -> tuple[Callable[[NDArray[np.intp]], CalibratedProbability], str]:
        """Return what computes the probabilities of some candidates, and what these mean.

        Candidates are where :meth:`surerec.calibration.Ranking.places` says. Only the ranking down
        to the last one that is looked at is computed. NaN, with the reason, for an uncovered user.
        """
        place, probabilities = self.users.place_of(query.user), self.probabilities
        swayed = probabilities is not None and place is not None and probabilities.swayed[place]
        reason = gap or (NO_PROBABILITIES if probabilities is None else SWAYED if swayed else "")

        def some(places: NDArray[np.intp]) -> CalibratedProbability:
            ranked = at[places]
            best = ranking.shares[: int(ranked.max(initial=-1)) + 1]
            found = np.full((3, len(best) + 1), np.nan)  # at last of what is not ranked
            if probabilities is not None and not reason:
                found[:, :-1] = probabilities.probabilities(best, len(query.history), place)
            return CalibratedProbability(*found[:, ranked])

        if reason or probabilities is None:
            return some, f"No probabilities: {reason}."
        is_in_it = place is not None and not probabilities.chooses[place]
        begin, end = map(day_of, self.period)
        also = f", and if {self.coverage.assumes}" if self.coverage.assumes else ""
        return some, (
            f"The probability that the item is among {self._future}, over {self._covered()}. "
            f"Measured, not proven, on {probabilities.curve.n_users - is_in_it:,} calibration "
            f"users ({begin} to {end}){also}: of items with such a rank, score and history length, "
            "about that share was consumed. The interval is a 95% confidence interval of that "
            "share over the draw of calibration users."
        )

    def _probabilities_of_many(
        self, people: Sequence[Query], best: Best, gaps: Sequence[str]
    ) -> CalibratedProbability:
        """Return the probabilities of the best items of several users; NaN where there are none."""
        found = np.full((3, len(best.items)), np.nan)
        if self.probabilities is not None:
            n_known = np.array([len(query.history) for query in people])
            places = self.users.places_of(people)
            told = np.array([not gap for gap in gaps])
            told &= (places < 0) | ~self.probabilities.swayed[places]
            rows = np.flatnonzero(told[best.owners])
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
        """Return the best items of many users, if the scorer scores users together."""
        if self.listed is not None or not ranks_together(scorer, statistics):
            return None
        lowest = significance + TOLERANCE if in_set else -1.0  # which no level is below
        if k is None and in_set and self.threshold == "rank":
            k = self._segments.most(significance, statistics.n_items)
        parts: list[tuple[NDArray[Any], ...]] = []
        covered: list[NDArray[np.bool_]] = []
        n_before = 0
        for people, ranked in best_by_block(scorer, statistics, queries, k):
            entries = (
                ranked.ranks.astype(np.float64) if self.threshold == "rank" else -ranked.shares
            )
            levels = self._segments.levels(people, ranked.owners, entries)
            inside = levels > lowest
            best = ranked.only(inside)
            gaps = [self.gap(scorer, query) for query in people]
            likely = self._probabilities_of_many(people, best, gaps)
            everything = np.full(len(people), np.inf)
            floors = self._segments.levels(people, np.arange(len(people)), everything)
            none = [
                bool(gap or self._segments.gap(each))
                for gap, each in zip(gaps, people, strict=True)
            ]
            covered.append((significance + TOLERANCE >= floors) & ~np.array(none))
            parts.append((best.owners + n_before, *best[1:4], 1 - levels[inside], *likely))
            n_before += len(people)
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

    def list_hits(
        self,
        queries: Sequence[Query],
        assessments: Sequence[Assessment],
        lengths: Sequence[int],
    ) -> CalibratedProbability:
        """Return the probabilities of at least one, two and three hits in lists, 3 × users.

        The lists hold the users' best items. NaN for an empty list, and for an uncovered user, as
        no calibration user is like them.
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
        probabilities = self.probabilities
        ranks = (
            self.users.first_ranks[:, None] if probabilities is None else probabilities.hit_ranks
        )
        found = list_hits(self.users, ranks, at + 1, features, places, self._hit_weights)
        for part in found:
            part[:, n == 0] = np.nan
        return found

    @cached_property
    def _hit_weights(self) -> dict[tuple[int, int, int], Weights]:
        return {}

    def guarantee(self, significance: float, assessment: UserAssessment | None = None) -> Guarantee:
        """Return what the confidence guarantees, to a user or to every covered one."""
        n, segment = len(self.users), ""
        if assessment is not None:
            n, segment = assessment.n_calibration, assessment.group
        covers = self._covered(segment)
        return self._stated(
            n,
            kind=self.guarantee_kind.guarantees,
            level=level_of(significance),
            claim=self.guarantee_kind.sentence(significance, self._future, covers),
            covers=covers,
        ).assuming(self._by_segment if assessment is None else "")

    @property
    def _by_segment(self) -> str:
        apart = self.n_groups > 1 or self.people is not None
        return "Each segment has a threshold of its own, and it holds in each." if apart else ""

    def about_hits(self, query: Query, n_items: int) -> str:
        """Return what the probability of at least one hit means, in words."""
        n_others = len(self.users)
        if self.users.place_of(query.user) is not None:
            n_others -= len(self.users) // 10  # the tenth that the user is in
        best = "their best item" if n_items == 1 else f"one of their {n_items} best items"
        users = f"{self._covered()} with this probability"
        claim = f"Of {users}, that share consumes {best} among {self._future}"
        return str(self._stated(n_others, kind="hit", claim=claim, covers=users))

    def beyond(self, significance: float, assessment: Assessment) -> str:
        """Return what keeps a confidence from being supported: too few users, or new items."""
        n, needed = assessment.n_calibration, users_needed(significance)
        n_held = assessment.size(significance)
        qualify = "every item qualifies"
        if n_held < len(assessment.candidates):  # the scorer gives some of them no score
            qualify = f"all {n_held:,} items with a score qualify, and no others"
        if n < needed:
            group = getattr(assessment, "group", "")
            return (
                f"a confidence of {1 - significance:.4g} needs at least {needed:,} calibration "
                f"users{f' with {group}' if group else ''}, and there "
                f"{'is' if n == 1 else 'are'} {n:,}, so {qualify}"
            )
        # Of the users behind this threshold: the floor is (Σ unknown losses + 1) / (n + 1).
        unknown = ((1 - assessment.highest_confidence) * (n + 1) - 1) / n
        return (
            f"{self.guarantee_kind.unknown(unknown, self.lacking)}, so no set of known "
            f"items supports a confidence above {assessment.highest_confidence:.4g}, and {qualify}"
        )

    def gap(self, scorer: Scorer, query: Query) -> str:
        """Return why the guarantee does not cover a user; empty if it does."""
        gap = self.coverage.gap(scorer, query, self.users.place_of(query.user))
        if gap:
            return gap
        if len(query.history) < self.min_history:
            n = len(query.history)
            return (
                f"only {n} item{' is' if n == 1 else 's are'} known of this user, and the "
                f"calibration users had {self.min_history} or more"
            )
        return ""


def next_items(n: int) -> str:
    """Return a horizon of n items in words.

    Examples
    --------
    >>> next_items(1), next_items(5)
    ('the next item new to the user', 'the next 5 items new to the user')
    """
    return "the next item new to the user" if n == 1 else f"the next {n} items new to the user"


def cases_of(calibration: UserCalibration, interactions: Interactions) -> Cases:
    """Return the pasts and futures of calibration users again, from the profiles that serve."""
    users, probabilities = calibration.users, calibration.probabilities
    if probabilities is None:
        raise InputError(
            f"Item lists and groups are calibrated on at least {FEWEST_USERS} users, and this "
            "model has fewer."
        )
    known = interactions.offsets[users.users] + users.n_before
    stops = known + np.bincount(users.owners, minlength=len(users))
    if (users.users < 0).any() or (stops > interactions.offsets[users.users + 1]).any():
        raise InputError(
            "This model was recalibrated without recounting, and does not hold what its "
            "calibration users consumed next: recalibrate it with refit=True first."
        )
    begin = int(probabilities.begin[0])
    return Cases(interactions, users.users, known, stops, None if begin < 0 else begin)
