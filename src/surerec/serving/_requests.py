"""The requests, in the vocabulary of the Python API."""

from __future__ import annotations

from typing import Annotated, Any, Final, Literal, Self

from pydantic import (
    BaseModel,
    BeforeValidator,
    ConfigDict,
    Field,
    StrictInt,
    StrictStr,
    model_validator,
)

from surerec._shown import near

MAX_HISTORY: Final = 5_000
MAX_ITEMS: Final = 1_000
MAX_USERS: Final = 500
MAX_ROWS: Final = 10_000
MAX_BATCH_K: Final = 100
MAX_MEMBERS: Final = 50
MAX_EVENTS: Final = 1_000


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
Together = Literal[
    "any",
    "most",
    "all",
    "worst",
    "hit-any",
    "hit-all",
    "mean",
    "geometric",
    "harmonic",
    "bonferroni",
    "maximum",
]

_NULL: Final = {"type": "null"}
_NUMBER: Final = {"type": "number"}
_USER: Final[dict[str, Any]] = {
    "anyOf": [
        {"required": ["user"], "properties": {"user": {"type": ["integer", "string"]}}},
        {"required": ["history"], "properties": {"history": {"type": "array"}}},
    ]
}
_USER_OR_GROUP: Final[dict[str, Any]] = {
    "anyOf": [
        *(
            {**each, "properties": {**each["properties"], "group": _NULL, "together": _NULL}}
            for each in _USER["anyOf"]
        ),
        {
            "required": ["group"],
            "properties": {
                "group": {"type": "array"},
                **dict.fromkeys(("user", "history", "times", "segment"), _NULL),
            },
        },
    ]
}
_ONE_LEVEL: Final[dict[str, Any]] = {
    "not": {
        "required": ["confidence", "significance"],
        "properties": {"confidence": _NUMBER, "significance": _NUMBER},
    }
}


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


def _check_times(history: History | None, times: Times | None) -> None:
    if times is None:
        return
    if history is None:
        raise ValueError("times is about a history: give history, or leave times out")
    if len(times) != len(history):
        raise ValueError(
            f"times has {len(times):,} values and history has {len(history):,} items: give one "
            "time for each item"
        )


class Member(_Request):
    """A member of a group: a user of the data, or a new user with a history."""

    model_config = ConfigDict(json_schema_extra={"oneOf": _USER["anyOf"]})

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
        _check_times(self.history, self.times)
        return self


class UserRequest(_Request):
    """The user that a request is about."""

    model_config = ConfigDict(json_schema_extra=_USER)

    recommender: Name | None = None
    """Which of the model's recommenders; by default its first."""
    user: Id | None = None
    """A user of the data."""
    history: History | None = None
    """What a user consumed, in order; with `user`, what is known of that user."""
    times: Times | None = None
    """When each item of the history was consumed, one for each: ISO dates or times, or Unix times,
    all of one kind. They sort the history."""
    at: Time | None = None
    """The moment at which the question is asked, for a history without times: an ISO date or time,
    or a Unix time. The measures that can be served do not use it."""
    segment: Id | None = None
    """The segment of a new user, if the model is calibrated by segments."""

    @model_validator(mode="after")
    def _about_somebody(self) -> Self:
        group: list[Member] | None = getattr(self, "group", None)
        if group is None and self.user is None and self.history is None:
            raise ValueError("Say for whom: give user, history or group")
        if group is not None and (self.user, self.history, self.segment) != (None, None, None):
            raise ValueError("Say for whom once: give group, or user, history and segment")
        _check_times(self.history, self.times)
        histories = [self.history, *(member.history for member in group or ())]
        if self.at is not None and all(history is None for history in histories):
            raise ValueError("at is about a history: give history, or leave at out")
        return self


class _GroupFields(_Request):
    group: Annotated[list[Member], Field(min_length=2, max_length=MAX_MEMBERS)] | None = None
    """The members of a group that chooses together, instead of a user."""
    together: Together | None = None
    """The kind of guarantee for a group; the model card lists them. By default "any", or "mean" of
    p-values."""

    @model_validator(mode="after")
    def _of_a_group(self) -> Self:
        if self.together is not None and self.group is None:
            raise ValueError("together is about a group: give group, or leave together out")
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


class RecommendRequest(_OptionFields, _GroupFields, UserRequest):
    """A recommendation set for a user or a group."""

    model_config = ConfigDict(json_schema_extra={**_USER_OR_GROUP, **_ONE_LEVEL})

    k: Annotated[StrictInt, Field(ge=1, le=MAX_ROWS), _AS_WHOLE] | None = None
    """A short list: the k best items, with the probabilities of hits; with a confidence, those of
    the set at that confidence. It has no guarantee of its own."""
    exclude: Annotated[list[Id], Field(max_length=MAX_HISTORY)] = Field(default_factory=list)
    """Items to leave out, which voids the guarantee."""
    limit: Rows = MAX_ROWS
    """How many of the items to list; the guarantee and the size are of all."""


class EntryConfidencesRequest(_GroupFields, UserRequest):
    """All items for a user or a group, at every confidence."""

    model_config = ConfigDict(json_schema_extra=_USER_OR_GROUP)

    limit: Rows = 500
    """How many of the best items to list; the curve is of all."""
    item_list: Name | None = None
    """Only the items of this calibrated item list."""


class PValuesRequest(UserRequest):
    """The p-values of items for a user."""

    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_ITEMS)]
    """The items."""
    unknown: Unknown = "check"
    """Unknown ids of `items` are skipped; a list of which more than half is unknown is refused,
    unless this is skip."""


class ExplanationRequest(_GroupFields, UserRequest):
    """Why an item is recommended to a user or a group."""

    model_config = ConfigDict(json_schema_extra=_USER_OR_GROUP)

    item: Id
    """The item to explain."""
    limit: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = 10
    """How many earlier items to list, of each member of a group."""


class BatchRequest(_OptionFields):
    """The best items for many users."""

    model_config = ConfigDict(json_schema_extra=_ONE_LEVEL)

    recommender: Name | None = None
    """Which of the model's recommenders; by default its first."""
    users: Annotated[list[Id], Field(min_length=1, max_length=MAX_USERS)]
    """Users of the data."""
    k: Annotated[StrictInt, Field(ge=1, le=MAX_BATCH_K), _AS_WHOLE] = 10
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
    time: (
        Annotated[StrictStr, Field(max_length=40)]
        | Annotated[float, Field(strict=True, allow_inf_nan=False)]
        | None
    ) = None
    """An ISO time, or seconds since 1970; by default now."""
    id: Id | None = None
    """Identifies the event, so that it is stored once."""


class EventsRequest(_Request):
    """Events in their order: all of them are stored, or none."""

    events: Annotated[list[SentEvent], Field(min_length=1, max_length=MAX_EVENTS)]


class ForgetRequest(_Request):
    """A user to forget."""

    user: Id
    """A user of the data, or of the events."""
