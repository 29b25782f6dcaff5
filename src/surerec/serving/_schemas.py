"""Request and response schemas, with the names of the Python API.

A response is the dictionary of ``to_dict()`` of a result.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Annotated, Any, Final, Literal, NotRequired, Self, TypeAlias

from pydantic import BaseModel, ConfigDict, Field, StrictInt, StrictStr, model_validator
from pydantic.functional_validators import BeforeValidator
from typing_extensions import TypedDict

from surerec._words import near
from surerec.calibration import Guarantee
from surerec.live import Status

MAX_HISTORY: Final = 5_000
MAX_ROWS: Final = 10_000


def _whole(value: Any) -> Any:
    """Return 3 for 3.0, which are the same number in JSON Schema and JavaScript."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_AS_WHOLE = BeforeValidator(_whole)  # after the bounds, which stay in the description


def _short(value: Any) -> Any:
    """Return an integer beyond 64 bits, which no data have and JSON cannot carry back, as text."""
    whole = _whole(value)
    is_long = isinstance(whole, int) and not -(2**63) <= whole < 2**64
    return str(whole) if is_long else whole


Id = Annotated[
    StrictInt | Annotated[StrictStr, Field(min_length=1, max_length=256)], BeforeValidator(_short)
]
"""Id of a user or an item, as in the data."""

Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=100)]
History = Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)]
Rows = Annotated[StrictInt, Field(ge=0, le=MAX_ROWS), _AS_WHOLE]
Time = (
    Annotated[StrictStr, Field(min_length=1, max_length=40)]
    | Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
)
"""An ISO date or time, or a Unix time."""
Times = Annotated[list[Time], Field(min_length=1, max_length=MAX_HISTORY)]
Unknown = Literal["check", "skip"]
_GroupGuarantee = Literal["any", "most", "all", "worst", "hit-any", "hit-all"]
_Merger = Literal["mean", "geometric", "harmonic", "bonferroni", "maximum"]
GroupGuarantee = Literal[_GroupGuarantee, _Merger]


def _needs_one_of(*names: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in names]})


class _Request(BaseModel):
    """A request; unknown fields are refused, with a suggestion."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, given: Any) -> Any:
        if isinstance(given, dict):
            unknown = next((name for name in given if name not in cls.model_fields), None)
            meant = unknown and near(str(unknown), cls.model_fields, n=1, alike=0.6)
            if meant:
                raise ValueError(f"There is no field {unknown}. Did you mean {meant[0]}?")
        return given


def _check_times(request: Member | UserRequest) -> None:
    n_times, n_items = len(request.times or ()), len(request.history or ())
    if request.times is not None and n_times != n_items:
        raise ValueError(
            f"times has {n_times:,} values and history has {n_items:,} items. Send one time per "
            "item"
        )


class Member(_Request):
    """A member of a group: a user in the data, or a new user with a history."""

    model_config = _needs_one_of("user", "history")

    user: Id | None = None
    """Id of a user in the data."""
    history: History | None = None
    """Items that a new user consumed, in order."""
    times: Times | None = None
    """Time of each item of the history."""
    name: Name | None = None
    """Name of the member; by default the id or a number."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.user is None) == (self.history is None):
            raise ValueError("A member needs exactly one of user and history")
        _check_times(self)
        return self


class UserRequest(_Request):
    """The user or the group of a request."""

    model_config = _needs_one_of("user", "history", "group")

    user: Id | None = None
    """Id of a user in the data."""
    history: History | None = None
    """Items that a user consumed, in order; with `user`, it replaces the stored history."""
    times: Times | None = None
    """Time of each item of the history: ISO dates or times, or Unix times, all of one kind. The
    history is sorted by them."""
    recommender: Name | None = None
    """Name of a recommender of the model; by default the first."""
    at: Time | None = None
    """Time of the request, for a history without times: an ISO date or time, or a Unix time.
    Built-in measures ignore it."""
    segment: Id | None = None
    """Segment of a new user, if the model is calibrated by segment."""
    group: Annotated[list[Member], Field(min_length=2, max_length=50)] | None = None
    """Members of a group that chooses together, instead of a user. Groups have no p-values."""
    group_guarantee: GroupGuarantee | None = None
    """Kind of guarantee for a group, as listed in the model card; by default "any", or "mean" for
    p-values."""

    @model_validator(mode="after")
    def _about_one(self) -> Self:
        one = (self.user, self.history, self.segment)
        if self.group is None and (self.user, self.history) == (None, None):
            raise ValueError("The request names no user. Send user, history or group")
        if self.group is not None and one != (None, None, None):
            raise ValueError("Send either group, or user, history and segment, not both")
        if self.group is None and self.group_guarantee is not None:
            raise ValueError("group_guarantee needs group. Send group, or omit group_guarantee")
        _check_times(self)
        histories = [self.history, *(member.history for member in self.group or ())]
        if self.at is not None and all(history is None for history in histories):
            raise ValueError("at needs a history. Send history, or omit at")
        return self


class _OptionFields(_Request):
    confidence: Fraction | None = None
    """Confidence level, 1 − ε, between 0 and 1; by default 0.9."""
    significance: Fraction | None = None
    """Significance level ε, instead of the confidence."""
    precision: Fraction | None = None
    """For recommenders that guarantee precision: the share of shown items that is consumed. The
    confidence refers to this share."""
    min_probability: Fraction | None = None
    """Return only items with at least this probability, without a guarantee."""
    items: History | None = None
    """Return only these items, without a guarantee."""
    item_list: Name | None = None
    """Return only items of this calibrated item list, with a guarantee."""
    unknown: Unknown = "check"
    """Handling of unknown ids in `items`: both values skip them, but "check" refuses lists of
    which more than half is unknown."""

    @model_validator(mode="after")
    def _one_level(self) -> Self:
        if self.confidence is not None and self.significance is not None:
            raise ValueError("Send confidence or significance (1 − confidence), not both")
        return self


class RecommendRequest(_OptionFields, UserRequest):
    """A recommendation set for a user or a group."""

    k: Annotated[StrictInt, Field(ge=1, le=MAX_ROWS), _AS_WHOLE] | None = None
    """Length of a short list of the best items, with hit probabilities; with a confidence, the best
    items of the set at that level. A short list has no guarantee of its own."""
    exclude: Annotated[list[Id], Field(max_length=MAX_HISTORY)] = Field(default_factory=list)
    """Items to leave out; the result has no guarantee."""
    limit: Rows = MAX_ROWS
    """Largest number of items in the response; guarantee and size refer to the whole set."""


class EntryConfidencesRequest(UserRequest):
    """All items for a user or a group, at every confidence."""

    limit: Rows = 500
    """Largest number of items in the response; the curve refers to all items."""
    item_list: Name | None = None
    """Return only items of this calibrated item list."""


class PValuesRequest(UserRequest):
    """The p-values of items for a user."""

    items: Annotated[list[Id], Field(min_length=1, max_length=1_000)]
    """Ids of the items."""
    unknown: Unknown = "check"
    """Handling of unknown ids in `items`: both values skip them, but "check" refuses lists of
    which more than half is unknown."""


class ExplanationRequest(UserRequest):
    """Why an item is recommended to a user or a group."""

    item: Id
    """The item to explain."""
    limit: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = 10
    """Largest number of earlier items, for each member of a group."""


class BatchRequest(_OptionFields):
    """The best items for many users."""

    recommender: Name | None = None
    """Name of a recommender of the model; by default the first."""
    users: Annotated[list[Id], Field(min_length=1, max_length=500)]
    """Ids of users in the data."""
    k: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = 10
    """Number of items per user."""


class ItemsRequest(BaseModel):
    """A search by title."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    q: Annotated[str, Field(max_length=200)] = ""
    """Words of the title; an empty text finds popular items."""
    limit: Annotated[int, Field(ge=1, le=50)] = 10
    """Largest number of items."""


class SentEvent(_Request):
    """One interaction: a user consumed an item."""

    user: Id
    """Id of a known or new user."""
    item: Id
    """Id of a known or new item."""
    time: Time | None = None
    """ISO time, or seconds since 1970; by default now."""
    id: Id | None = None
    """Id of the event; events with a known id are not stored again."""


class EventsRequest(_Request):
    """Events in order; either all of them are stored or none."""

    events: Annotated[list[SentEvent], Field(min_length=1, max_length=1_000)]


class ForgetRequest(_Request):
    """A user to forget."""

    user: Id
    """Id of a user in the data or in the events."""


AnyId: TypeAlias = int | str
Text: TypeAlias = str | None
Number: TypeAlias = float | None


class _Response(TypedDict):
    """A response without further fields."""


_Response.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
    extra="forbid", use_attribute_docstrings=True
)


@dataclass(frozen=True, kw_only=True)
class GuaranteeResponse(Guarantee):
    """The guarantee of an answer: kind, level, covered users, assumptions, and its text."""

    sentence: str
    full: GuaranteeResponse | None


class AssessedItem(_Response):
    """An item and the confidence above which it is in the set."""

    item_id: AnyId
    title: NotRequired[Text]
    p_value: NotRequired[Number]
    """Missing for recommenders without p-values."""
    entry_confidence: Number


class RecommendedItem(AssessedItem):
    """An item of a set."""

    rank: int
    score: Number
    """Score of the measure; null for minus infinity."""
    probability: NotRequired[Number]
    """Calibrated probability that the item is consumed within the horizon."""
    probability_low: NotRequired[Number]
    """Lower end of the 95% interval of the probability."""
    probability_high: NotRequired[Number]
    """Upper end of that interval."""
    user_id: NotRequired[AnyId]
    """In a batch: id of the user."""
    covered: NotRequired[bool]
    """In a batch: whether the guarantee covers this user."""
    member_ranks: NotRequired[list[int]]
    """For a group: rank of the item for each member alone."""
    member_values: NotRequired[list[float]]
    """For a group: the same on a scale from 1 (best item) to 0."""


class ServedMember(_Response):
    """A member of a group and the satisfaction with the set."""

    member: AnyId
    satisfaction: Number
    """Share of the member's own best items, as many as the set has, that is in the set."""


class RecommendationsResponse(_Response):
    """A recommendation set, best first."""

    recommender: str
    confidence: Number
    significance: Number
    precision: Number
    """The guaranteed share of shown items that is consumed, if requested."""
    guarantee: GuaranteeResponse
    about_probability: str
    """Explanation of the item probabilities; empty without probabilities."""
    hit_probability: Number
    """With `k`: probability that at least one item of the list is consumed."""
    hit_interval: list[float] | None
    """With `k`: the lower and upper Venn–Abers probability."""
    hit_probabilities: list[Number]
    """With `k`: probabilities that at least one, two and three items are consumed."""
    expected_hits: Number
    """With `k`: expected number of consumed items in the list."""
    about_hit_probability: str
    """Explanation of the hit probabilities, or why there are none."""
    full_size: int
    """Number of items in the whole set."""
    n_candidates: int
    """Number of items that could be recommended."""
    highest_confidence: float
    """Highest confidence at which this history can leave an item out."""
    everything_qualifies: bool
    ignored: list[AnyId]
    """Ids of the history that are unknown to the model."""
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[RecommendedItem]
    """The items, or the first `limit` of them."""
    group_guarantee: NotRequired[str]
    """For a group: kind of the guarantee."""
    formed: NotRequired[str]
    """For a group: how the calibration groups are formed."""
    covered: NotRequired[bool]
    """For a group: whether the guarantee of the whole set covers it."""
    members: NotRequired[list[ServedMember]]
    """For a group: its members."""
    least_served: NotRequired[AnyId | None]
    """For a group: the member with the smallest satisfaction."""


class TitledColumns(_Response):
    """Items with their titles, as columns."""

    item_id: list[AnyId]
    title: list[Text]


class RankedColumns(TitledColumns):
    """The best items, as columns."""

    genres: list[Text]
    """Genres such as Comedy, Drama; null if unknown."""
    score: list[Number]
    p_value: NotRequired[list[Number]]
    """Missing for recommenders without p-values."""
    entry_confidence: list[Number]
    probability: list[Number]
    member_values: NotRequired[list[list[float]]]
    """For a group: the rank for each member on a scale from 1 (best item) to 0."""


class EntryConfidencesResponse(_Response):
    """The sets at all confidences: an item is in those above its `entry_confidence`."""

    recommender: str
    gives_confidence: bool
    """False for a plain ranking and for precision guarantees."""
    guarantees_precision: bool
    about_probability: str
    n_candidates: int
    highest_confidence: float
    curve: dict[Literal["entry_confidence", "size"], list[float]]
    """Size of the set just above each entry confidence."""
    items: RankedColumns
    history: TitledColumns
    """Latest items of the user, newest last; for a group, the items of its new users."""
    history_length: int
    ignored: list[AnyId]
    group_guarantee: NotRequired[str]
    """For a group: kind of the guarantee."""
    members: NotRequired[list[AnyId]]
    """For a group: its members."""


class PValuesResponse(_Response):
    """The p-value of each requested item."""

    recommender: str
    ignored: list[AnyId]
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[AssessedItem]


class EarlierItem(_Response):
    """An earlier item and counts of the users who consumed it."""

    item_id: AnyId
    title: Text
    support: int
    """Number of other users who consumed it."""
    later: int
    """How many of them consumed the explained item later."""
    earlier: int
    """How many of them consumed the explained item earlier."""
    share: float
    """later / support."""


class MemberReasons(_Response):
    """Explanation for one member of a group."""

    member: AnyId
    rank: int
    """Rank of the item for this member alone."""
    sentences: list[str]
    because: list[EarlierItem]


class ExplanationResponse(_Response):
    """Earlier items that support an item, for a user or for each member of a group."""

    recommender: str
    item_id: AnyId
    title: str
    entry_confidence: Number
    score: NotRequired[Number]
    p_value: NotRequired[Number]
    n_calibration: NotRequired[int]
    ignored: NotRequired[list[AnyId]]
    sentences: NotRequired[list[str]]
    because: NotRequired[list[EarlierItem]]
    rank: NotRequired[int]
    """For a group: rank of the item."""
    n_candidates: NotRequired[int]
    """For a group: number of candidate items."""
    members: NotRequired[list[MemberReasons]]
    """For a group: explanation by member."""


class BatchResponse(_Response):
    """The best items of each user, in the order of the request."""

    recommender: str
    confidence: Number
    significance: Number
    guarantee: GuaranteeResponse
    unknown_users: list[AnyId]
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[RecommendedItem]


class FoundItem(_Response):
    """An item of a search result."""

    item_id: AnyId
    title: Text
    genres: Text
    support: int


class FoundResponse(_Response):
    """Search results, best match first."""

    items: list[FoundItem]


@dataclass(frozen=True, kw_only=True)
class CardGuarantee(GuaranteeResponse):
    """Example guarantee, for a user who consumed the most popular items."""

    history_length: int


class CardRecommender(_Response):
    """One of the model's recommenders."""

    name: str
    kind: str
    headline: str
    """Short form of the guarantee at 90%."""
    params: dict[str, Any]
    gives_confidence: bool
    gives_probabilities: bool
    guarantees_precision: bool
    item_lists: list[str]
    """Names of the item lists."""
    group_guarantee: list[str]
    """Kinds of guarantees for groups; empty if there are none."""
    group_sizes: list[int]
    """Calibrated group sizes; empty if any size is supported."""
    guarantee: CardGuarantee


class ModelResponse(_Response):
    """The model card."""

    model: str
    """Id of the model, a hash of its content; also in the header Surerec-Model."""
    format: str
    format_version: int
    created: str
    updated: str
    data: Text
    counts: dict[str, int | None]
    """Numbers of users, items and rows."""
    settings: dict[str, str]
    recommenders: list[CardRecommender]
    live: NotRequired[bool]
    """Whether the model ingests events."""


class ReloadResponse(_Response):
    """The result of a reload."""

    model: str
    changed: bool
    workers: int


class LiveWindow(_Response):
    """Coverage of consecutive evaluated events, by confidence level, highest first."""

    until: str
    """Day of the last event."""
    n: int
    observed: list[float]
    unadapted: list[float]
    """Coverage without adapted thresholds."""


@dataclass(frozen=True, kw_only=True)
class LiveResponse(Status):
    """Nominal and observed coverage of all evaluated events, by level, highest first."""

    windows: list[LiveWindow]
    """The last 60 windows of 2,000 evaluated events each."""


class ProblemDetail(_Response):
    """Error response (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    """What is wrong, and how to fix it."""
