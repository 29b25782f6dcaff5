"""The requests, in the vocabulary of the Python API, and the responses.

``to_dict()`` of a result makes the dictionary that a response declares.
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
    """Return 3 for 3.0: to JSON Schema, and to JavaScript, they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_AS_WHOLE = BeforeValidator(_whole)  # after the bounds, which the description then keeps
Id = Annotated[StrictInt, _AS_WHOLE] | Annotated[StrictStr, Field(min_length=1, max_length=256)]
"""A user's or an item's own id, as in the data."""

Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=100)]
History = Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)]
Rows = Annotated[StrictInt, Field(ge=0, le=MAX_ROWS), _AS_WHOLE]
Time = (
    Annotated[StrictStr, Field(min_length=1, max_length=40)]
    | Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
)
"""An instant: an ISO date or time, or a Unix time."""
Times = Annotated[list[Time], Field(min_length=1, max_length=MAX_HISTORY)]
Unknown = Literal["check", "skip"]
_GroupGuarantee = Literal["any", "most", "all", "worst", "hit-any", "hit-all"]
_Merger = Literal["mean", "geometric", "harmonic", "bonferroni", "maximum"]
GroupGuarantee = Literal[_GroupGuarantee, _Merger]


def _needs_one_of(*names: str) -> ConfigDict:
    return ConfigDict(json_schema_extra={"anyOf": [{"required": [name]} for name in names]})


class _Request(BaseModel):
    """Unknown fields are refused, with the one that was probably meant."""

    model_config = ConfigDict(extra="forbid", use_attribute_docstrings=True)

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, given: Any) -> Any:
        if isinstance(given, dict):
            unknown = next((name for name in given if name not in cls.model_fields), None)
            meant = unknown and near(str(unknown), cls.model_fields, n=1, alike=0.6)
            if meant:
                raise ValueError(f"There is no field {unknown}; did you mean {meant[0]}?")
        return given


def _check_times(request: Member | UserRequest) -> None:
    n_times, n_items = len(request.times or ()), len(request.history or ())
    if request.times is not None and n_times != n_items:
        raise ValueError(
            f"times has {n_times:,} values and history has {n_items:,} items: give one time for "
            "each item"
        )


class Member(_Request):
    """A member of a group: a user of the data, or a new user with a history."""

    model_config = _needs_one_of("user", "history")

    user: Id | None = None
    """A user of the data."""
    history: History | None = None
    """What a new user consumed, in order."""
    times: Times | None = None
    """When each item of the history was consumed."""
    name: Name | None = None
    """What to call the member; by default the id, or a number."""

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.user is None) == (self.history is None):
            raise ValueError("A member is a user, or a new user with a history: give one of them")
        _check_times(self)
        return self


class UserRequest(_Request):
    """The user or the group that a request is about."""

    model_config = _needs_one_of("user", "history", "group")

    user: Id | None = None
    """A user of the data."""
    history: History | None = None
    """What a user consumed, in order; with `user`, what is known of that user."""
    times: Times | None = None
    """When each item of the history was consumed, one for each: ISO dates or times, or Unix times,
    all of one kind. They sort the history."""
    recommender: Name | None = None
    """Which of the model's recommenders; by default its first."""
    at: Time | None = None
    """The moment at which the question is asked, for a history without times: an ISO date or time,
    or a Unix time. The measures that can be served do not use it."""
    segment: Id | None = None
    """The segment of a new user, if the model is calibrated by segments."""
    group: Annotated[list[Member], Field(min_length=2, max_length=50)] | None = None
    """The members of a group that chooses together, instead of a user. Groups have no p-values."""
    group_guarantee: GroupGuarantee | None = None
    """The kind of guarantee for a group; the model card lists them. By default "any", or "mean" of
    p-values."""

    @model_validator(mode="after")
    def _about_one(self) -> Self:
        one = (self.user, self.history, self.segment)
        if self.group is None and (self.user, self.history) == (None, None):
            raise ValueError("The request is about nobody: give user, history or group")
        if self.group is not None and one != (None, None, None):
            raise ValueError("Give group, or user, history and segment, not both")
        if self.group is None and self.group_guarantee is not None:
            raise ValueError("together is about a group: give group, or leave together out")
        _check_times(self)
        histories = [self.history, *(member.history for member in self.group or ())]
        if self.at is not None and all(history is None for history in histories):
            raise ValueError("at is about a history: give history, or leave at out")
        return self


class _OptionFields(_Request):
    confidence: Fraction | None = None
    """1 − ε, in (0, 1); by default 0.9."""
    significance: Fraction | None = None
    """ε, instead of the confidence."""
    precision: Fraction | None = None
    """For recommenders that guarantee precision: the share of the shown items that is consumed; the
    confidence is then that of this guarantee."""
    min_probability: Fraction | None = None
    """Only items with at least this probability, which voids the guarantee."""
    items: History | None = None
    """The only items that may be recommended, with the same effect."""
    item_list: Name | None = None
    """Only the items of this calibrated item list, with a guarantee on them."""
    unknown: Unknown = "check"
    """Unknown ids of `items` are skipped; a list of which more than half is unknown is refused,
    unless this is skip."""

    @model_validator(mode="after")
    def _one_level(self) -> Self:
        if self.confidence is not None and self.significance is not None:
            raise ValueError("Give confidence or significance (1 − confidence), not both")
        return self


class RecommendRequest(_OptionFields, UserRequest):
    """A recommendation set for a user or a group."""

    k: Annotated[StrictInt, Field(ge=1, le=MAX_ROWS), _AS_WHOLE] | None = None
    """A short list: the k best items, with the probabilities of hits; with a confidence, those of
    the set at that confidence. It has no guarantee of its own."""
    exclude: Annotated[list[Id], Field(max_length=MAX_HISTORY)] = Field(default_factory=list)
    """Items to leave out, which voids the guarantee."""
    limit: Rows = MAX_ROWS
    """How many of the items to list; the guarantee and the size are of all."""


class EntryConfidencesRequest(UserRequest):
    """All items for a user or a group, at every confidence."""

    limit: Rows = 500
    """How many of the best items to list; the curve is of all."""
    item_list: Name | None = None
    """Only the items of this calibrated item list."""


class PValuesRequest(UserRequest):
    """The p-values of items for a user."""

    items: Annotated[list[Id], Field(min_length=1, max_length=1_000)]
    """The items."""
    unknown: Unknown = "check"
    """Unknown ids of `items` are skipped; a list of which more than half is unknown is refused,
    unless this is skip."""


class ExplanationRequest(UserRequest):
    """Why an item is recommended to a user or a group."""

    item: Id
    """The item to explain."""
    limit: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = 10
    """How many earlier items to list, of each member of a group."""


class BatchRequest(_OptionFields):
    """The best items for many users."""

    recommender: Name | None = None
    """Which of the model's recommenders; by default its first."""
    users: Annotated[list[Id], Field(min_length=1, max_length=500)]
    """Users of the data."""
    k: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = 10
    """How many items for each."""


class ItemsRequest(BaseModel):
    """A search by title."""

    model_config = ConfigDict(use_attribute_docstrings=True)

    q: Annotated[str, Field(max_length=200)] = ""
    """Words of the title; none finds popular items."""
    limit: Annotated[int, Field(ge=1, le=50)] = 10
    """How many items to list."""


class SentEvent(_Request):
    """A user consumed an item."""

    user: Id
    """Known or new."""
    item: Id
    """Known or new."""
    time: Time | None = None
    """An ISO time, or seconds since 1970; by default now."""
    id: Id | None = None
    """Identifies the event, so that it is stored once."""


class EventsRequest(_Request):
    """Events in their order: all of them are stored, or none."""

    events: Annotated[list[SentEvent], Field(min_length=1, max_length=1_000)]


class ForgetRequest(_Request):
    """A user to forget."""

    user: Id
    """A user of the data, or of the events."""


AnyId: TypeAlias = int | str
Text: TypeAlias = str | None
Number: TypeAlias = float | None


class _Response(TypedDict):
    """The fields of a response; there are no others."""


_Response.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
    extra="forbid", use_attribute_docstrings=True
)


@dataclass(frozen=True, kw_only=True)
class GuaranteeResponse(Guarantee):
    """What an answer guarantees, to whom and under which assumptions: its fields and sentence."""

    sentence: str
    full: GuaranteeResponse | None


class AssessedItem(_Response):
    """An item, and the confidence above which it is in the set."""

    item_id: AnyId
    title: NotRequired[Text]
    p_value: NotRequired[Number]
    """Left out by recommenders without p-values."""
    entry_confidence: Number


class RecommendedItem(AssessedItem):
    """An item of a set."""

    rank: int
    score: Number
    """How well it conforms; null if that is minus infinity."""
    probability: NotRequired[Number]
    """Probability that it is consumed within the stated horizon, with a user-level calibration."""
    probability_low: NotRequired[Number]
    """Lower end of the 95% interval of the probability curve over users."""
    probability_high: NotRequired[Number]
    """Upper end of that interval."""
    user_id: NotRequired[AnyId]
    """In a batch: the user."""
    covered: NotRequired[bool]
    """In a batch: whether the guarantee covers this user."""
    member_ranks: NotRequired[list[int]]
    """In the set of a group: its rank for each member alone."""
    member_values: NotRequired[list[float]]
    """In the set of a group: the same, from 1 for the best item down to 0."""


class ServedMember(_Response):
    """A member of a group, and how well the set serves them."""

    member: AnyId
    satisfaction: Number
    """The share of their own best items, as many as the set holds, that is in the set."""


class RecommendationsResponse(_Response):
    """A recommendation set, best first."""

    recommender: str
    confidence: Number
    significance: Number
    precision: Number
    """The guaranteed share of the shown items that is consumed, if it was asked for."""
    guarantee: GuaranteeResponse
    about_probability: str
    """What the probabilities of items mean; empty without any."""
    hit_probability: Number
    """With `k`: the probability that at least one item of the list is consumed."""
    hit_interval: list[float] | None
    """With `k`: the two Venn–Abers probabilities between which that one lies."""
    hit_probabilities: list[Number]
    """With `k`: the probabilities that at least one, two and three items are consumed."""
    expected_hits: Number
    """With `k`: how many items of the list are consumed on average."""
    about_hit_probability: str
    """What these probabilities mean, or why there are none."""
    full_size: int
    """Number of items in the whole set."""
    n_candidates: int
    """Number of items that could be recommended."""
    highest_confidence: float
    """The highest confidence at which this history can leave anything out."""
    everything_qualifies: bool
    ignored: list[AnyId]
    """Ids of the history that nobody in the data consumed."""
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[RecommendedItem]
    """The items, or the first `limit` of them."""
    group_guarantee: NotRequired[str]
    """Of a group: the kind of its guarantee."""
    formed: NotRequired[str]
    """Of a group: the groups that the guarantee is about."""
    covered: NotRequired[bool]
    """Of a group: whether the guarantee of the whole set covers it."""
    members: NotRequired[list[ServedMember]]
    """Of a group: its members."""
    least_served: NotRequired[AnyId | None]
    """Of a group: the member with the smallest satisfaction."""


class TitledColumns(_Response):
    """Items with their titles, as columns."""

    item_id: list[AnyId]
    title: list[Text]


class RankedColumns(TitledColumns):
    """The best items, as columns."""

    genres: list[Text]
    """Such as Comedy, Drama; null where none are known."""
    score: list[Number]
    p_value: NotRequired[list[Number]]
    """Left out by recommenders without p-values."""
    entry_confidence: list[Number]
    probability: list[Number]
    member_values: NotRequired[list[list[float]]]
    """For a group: a value for each member, from 1 for their best item down to 0."""


class EntryConfidencesResponse(_Response):
    """One answer for every confidence: cut it where `entry_confidence` is below the wanted one."""

    recommender: str
    gives_confidence: bool
    """False for a ranking, and for a guarantee of precision."""
    guarantees_precision: bool
    about_probability: str
    n_candidates: int
    highest_confidence: float
    curve: dict[Literal["entry_confidence", "size"], list[float]]
    """How many items are in the set at any confidence above each entry confidence."""
    items: RankedColumns
    history: TitledColumns
    """The latest items of the user, the last one last; of a group, what new users consumed."""
    history_length: int
    ignored: list[AnyId]
    group_guarantee: NotRequired[str]
    """Of a group: the kind of its guarantee."""
    members: NotRequired[list[AnyId]]
    """Of a group: its members."""


class PValuesResponse(_Response):
    """The p-value of each item asked for."""

    recommender: str
    ignored: list[AnyId]
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[AssessedItem]


class EarlierItem(_Response):
    """An earlier item, and what the users who consumed it did."""

    item_id: AnyId
    title: Text
    support: int
    """Other users who consumed it."""
    later: int
    """Of them, how many consumed the explained item later."""
    earlier: int
    """Of them, how many had consumed the explained item before."""
    share: float
    """later / support."""


class MemberReasons(_Response):
    """The earlier items of one member of a group."""

    member: AnyId
    rank: int
    """The item's rank for this member alone."""
    sentences: list[str]
    because: list[EarlierItem]


class ExplanationResponse(_Response):
    """Which earlier items speak for an item: of a user, or of each member of a group."""

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
    """Of a group: the item's rank."""
    n_candidates: NotRequired[int]
    """Of a group: among how many items."""
    members: NotRequired[list[MemberReasons]]
    """Of a group: the reasons by member."""


class BatchResponse(_Response):
    """The best items of each user, in the order asked for."""

    recommender: str
    confidence: Number
    significance: Number
    guarantee: GuaranteeResponse
    unknown_users: list[AnyId]
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[RecommendedItem]


class FoundItem(_Response):
    """An item that a search found."""

    item_id: AnyId
    title: Text
    genres: Text
    support: int


class FoundResponse(_Response):
    """The items that a search found, the likeliest first."""

    items: list[FoundItem]


@dataclass(frozen=True, kw_only=True)
class CardGuarantee(GuaranteeResponse):
    """The guarantee for a user who consumed the most popular items."""

    history_length: int


class CardRecommender(_Response):
    """One of the model's recommenders."""

    name: str
    kind: str
    headline: str
    """What it guarantees at 90%, without the assumption."""
    params: dict[str, Any]
    gives_confidence: bool
    gives_probabilities: bool
    guarantees_precision: bool
    lists: list[str]
    """The item lists that `item_list` may name."""
    group_guarantee: list[str]
    """The kinds of guarantees for groups; empty if there are none."""
    group_sizes: list[int]
    """The sizes of groups that were calibrated; empty if any size can be asked for."""
    guarantee: CardGuarantee


class ModelResponse(_Response):
    """The model card."""

    model: str
    """Named by its content; also in the header Surerec-Model."""
    format: str
    format_version: int
    created: str
    updated: str
    data: Text
    counts: dict[str, int | None]
    """Users, items and rows."""
    settings: dict[str, str]
    recommenders: list[CardRecommender]
    live: NotRequired[bool]
    """Whether it ingests events and tracks its coverage."""


class ReloadResponse(_Response):
    """The result of a reload."""

    model: str
    changed: bool
    workers: int


class LiveWindow(_Response):
    """The coverage of some judged events in a row, from the highest confidence on."""

    until: str
    """The day of the last of them."""
    n: int
    observed: list[float]
    unadapted: list[float]
    """The coverage without adapted thresholds."""


@dataclass(frozen=True, kw_only=True)
class LiveResponse(Status):
    """Nominal and observed coverage over all judged events, from the highest confidence on."""

    windows: list[LiveWindow]
    """Of 2,000 judged events each, the last 60."""


class ProblemDetail(_Response):
    """Why a request was not answered (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    """One sentence for the caller."""
