"""User-level calibration: parameters, segments, and the calibration of a scorer."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, TypeAlias, get_args

from surerec._arguments import check_choice, check_number, check_random_state, check_whole
from surerec.calibration import (
    NamedItems,
    PrecisionCalibration,
    ThresholdChoice,
    UserCalibration,
    UserCoverage,
    calibrate,
    check_horizon,
    codes_in,
    find_guarantee,
    unit_of,
)
from surerec.errors import InputError
from surerec.interactions import Segmentation, read_user_segments
from surerec.recommenders._group_calibration import CalibratedGroups, Sample

if TYPE_CHECKING:
    from collections.abc import Callable

    from surerec._state import State
    from surerec.calibration import Calibration, GuaranteeKind, Horizon
    from surerec.interactions import Interactions
    from surerec.precedence import PrecedenceStatistics

SegmentSpec: TypeAlias = "int | str | tuple[str, int] | list[str | int]"
"""The number of segments by history length, a column of users, or both."""
_MOST_SEGMENTS: Final = 10_000
_MOST_DAYS: Final = 1_000_000
"""The longest window; datetimes cover hardly four times as much."""


@dataclass(frozen=True)
class Statement:
    """What a guarantee states besides its numbers: covered users and held-out interactions."""

    coverage: UserCoverage
    about: str = ""
    """Description of the held-out interactions, if horizon and window do not describe them."""
    lacking: str = UserCalibration.lacking
    """Description of items that no set can contain."""


@dataclass(frozen=True)
class UserLevel:
    """The parameters of a user-level calibration; see :class:`PopulationConformal`."""

    guarantee: str | GuaranteeKind
    horizon: Horizon
    threshold: ThresholdChoice | None
    segments: SegmentSpec
    window: float | None
    n_calibration: int
    min_history: int
    random_state: int

    @classmethod
    def of(cls, estimator: Any, threshold: ThresholdChoice | None) -> UserLevel:
        """Return the validated parameters of an estimator, with its threshold unit."""
        given = {name: getattr(estimator, name) for name in cls.__dataclass_fields__}
        found = cls(**{**given, "threshold": threshold})
        check_random_state(found.random_state)
        find_guarantee(found.guarantee)
        if found.threshold is not None:
            check_choice("threshold", found.threshold, get_args(ThresholdChoice))
        check_horizon(found.horizon)
        parse_segments(found.segments)
        check_whole("n_calibration", found.n_calibration)
        check_whole("min_history", found.min_history)
        if found.window is not None:
            must = f"a number of days above 0 and at most {_MOST_DAYS:,}"
            check_number("window", found.window, 0, _MOST_DAYS, must, ends=(False, True))
        return found

    def calibration_from(
        self, state: State, says: Statement, statistics: PrecedenceStatistics
    ) -> UserCalibration:
        """Restore a calibration from its state; raise KeyError or ValueError on a mismatch."""
        column = parse_segments(self.segments)[0]
        return self._kind.from_state(state, statistics, column, **self._stated(says))

    @property
    def _kind(self) -> type[UserCalibration]:
        return PrecisionCalibration if find_guarantee(self.guarantee).tested else UserCalibration

    @property
    def _unit(self) -> ThresholdChoice | None:
        """The threshold unit; a precision is tested on bins of items, whatever the unit."""
        tested = find_guarantee(self.guarantee).tested
        return "rank" if tested and self.threshold in {None, "learned"} else self.threshold

    def _stated(self, says: Statement) -> dict[str, Any]:
        return {
            "guarantee_kind": find_guarantee(self.guarantee),
            "horizon": check_horizon(self.horizon),
            "window": self.window,
            "threshold": self._unit,
            "n_groups": parse_segments(self.segments)[1],
            "min_history": self.min_history,
            "coverage": says.coverage,
            "about": says.about,
            "lacking": says.lacking,
        }

    def calibrate(
        self,
        sample: Sample,
        says: Statement,
        serving: PrecedenceStatistics,
        segments: Segmentation | None,
        listed: NamedItems | None = None,
    ) -> UserCalibration:
        """Calibrate a scorer on a sample of users.

        Parameters
        ----------
        sample : Sample
            The scorer and its calibration users.
        says : Statement
            The statement of the guarantee.
        serving : PrecedenceStatistics
            The statistics that serve requests, with the users' codes.
        segments : Segmentation or None
            The segment of each user.
        listed : NamedItems, optional
            An item list to calibrate on.
        """
        there = None
        if listed is not None:
            past = sample.past.interactions.items
            there = listed.within(serving.interactions.items, past)
        users, probabilities = calibrate(
            sample.scorer,
            sample.past,
            sample.cases,
            self._unit,
            serving,
            guarantee=find_guarantee(self.guarantee),
            listed=there,
            random_state=self.random_state,
        )
        return self._kind(
            users=users,
            probabilities=probabilities,
            segmentation=segments,
            listed=listed,
            **self._stated(says) | {"threshold": unit_of(self._unit, probabilities)},
        )

    def group_model(
        self, calibration: Calibration, sample: Callable[[Any], Sample], *, held_out: bool
    ) -> CalibratedGroups:
        """Return the group model of the users whom a calibration covers.

        Parameters
        ----------
        calibration : Calibration
            The user-level calibration.
        sample : callable
            Returns the users of a fitted model who may be in a group.
        held_out : bool
            Whether held-out interactions are unknown to a scorer that cannot leave users out.
        """
        future = members_future(check_horizon(self.horizon), self.window)
        return CalibratedGroups(
            f"of each member, {calibration.about}" if calibration.about else future,
            self.min_history,
            self.n_calibration,
            self.random_state,
            sample,
            held_out,
            find_guarantee(self.guarantee).tested,
            "" if calibration.covers == UserCoverage.users else f" of {calibration.covers}",
        )


def members_future(horizon: Horizon, window: float | None) -> str:
    """Return the description of the held-out interactions of a group's members.

    Examples
    --------
    >>> members_future(0.4, None), members_future(1, None)
    ("the last 40% of each member's items", "each member's next item")
    >>> members_future(0.4, 30.0), members_future(5, 30.0)
    ("each member's items of the next 30 days", "each member's next 5 items within 30 days")
    """
    if isinstance(horizon, float):
        if window is None:
            return f"the last {horizon:.0%} of each member's items"
        return f"each member's items of the next {window:g} days"
    within = "" if window is None else f" within {window:g} days"
    return f"each member's next {'item' if horizon == 1 else f'{horizon} items'}{within}"


def parse_segments(segments: object) -> tuple[str | None, int]:
    """Return the segment column, or None, and the number of segments by history length.

    Examples
    --------
    >>> parse_segments(3), parse_segments("country"), parse_segments(("country", 3))
    ((None, 3), ('country', 1), ('country', 3))
    """
    if isinstance(segments, str) and segments.strip():
        return segments, 1
    if isinstance(segments, (tuple, list)):
        if len(segments) == 2 and isinstance(segments[0], str) and segments[0].strip():  # noqa: PLR2004
            return segments[0], check_whole(
                "the number in segments", segments[1], highest=_MOST_SEGMENTS
            )
    elif not isinstance(segments, str):
        return None, check_whole("segments", segments, highest=_MOST_SEGMENTS)
    raise InputError(
        f"segments is {segments!r}. Pass a number of segments by history length, the name of a "
        'column of users, such as "country", or both, such as ("country", 3).'
    )


def read_segments(segments: object, given: Any, interactions: Interactions) -> Segmentation | None:
    """Return the segment of each user; None if segments are by history length only."""
    column = parse_segments(segments)[0]
    if column is None and given is not None:
        raise InputError(
            "user_segments was given, but segments is a number. Name their column, as in "
            'segments="country".'
        )
    if column is None:
        return None
    if given is None:
        raise InputError(
            f"segments is {segments!r}, so fit needs the {column} of each user. Pass "
            "user_segments=: a mapping, a frame or a file."
        )
    return read_user_segments(given, column, interactions.users)


def renewed_segments(
    before: Segmentation, given: Any, past: PrecedenceStatistics, now: Interactions
) -> Segmentation:
    """Return the given segments of users, or else their previous segments."""
    if given is not None:
        return read_user_segments(given, before.column, now.users)
    return before if past.interactions is now else before.moved(codes_in(past, now)[0])
