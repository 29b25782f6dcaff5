"""What is asked, in the vocabulary of the Python API."""

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
from surerec.conformal import DEFAULT_CONFIDENCE

MAX_HISTORY: Final = 5_000
MAX_ITEMS: Final = 1_000
MAX_USERS: Final = 500
MAX_ROWS: Final = 10_000
MAX_BATCH_K: Final = 100
MAX_MEMBERS: Final = 50
MAX_EVENTS: Final = 1_000


def _whole(value: Any) -> Any:
    """Take 3.0 for 3: to JSON Schema, and to JavaScript, they are the same number."""
    return int(value) if isinstance(value, float) and value.is_integer() else value


_AS_WHOLE = BeforeValidator(_whole)  # after the bounds, which the description then keeps
Id = Annotated[StrictInt, _AS_WHOLE] | Annotated[StrictStr, Field(min_length=1, max_length=256)]
"""A user's or an item's own id, as in the data."""

Fraction = Annotated[float, Field(gt=0, lt=1, allow_inf_nan=False, strict=True)]
Name = Annotated[StrictStr, Field(min_length=1, max_length=100)]
Unknown = Annotated[
    Literal["check", "skip"],
    Field(
        description="Unknown ids of `items` are skipped; a list of which more than half is unknown "
        "is refused, unless this is skip."
    ),
]

Time = (
    Annotated[StrictStr, Field(min_length=1, max_length=40)]
    | Annotated[float, Field(ge=0, strict=True, allow_inf_nan=False)]
)
"""An instant: an ISO date or time, or a Unix time."""

Times = Annotated[list[Time], Field(min_length=1, max_length=MAX_HISTORY)]
_TIMES: Final = (
    "When each item of the history was consumed, one for each: ISO dates or times, or Unix times, "
    "all of one kind. They sort the history."
)
_AT: Final = (
    "The moment at which the question is asked, for a history without times: an ISO date or time, "
    "or a Unix time. The measures that can be served do not use it."
)

_ID_SCHEMA: Final = {"type": ["integer", "string"]}
_NUMBER: Final = {"type": "number"}
_PERSON: Final[dict[str, Any]] = {
    "anyOf": [
        {"required": ["user"], "properties": {"user": _ID_SCHEMA}},
        {"required": ["history"], "properties": {"history": {"type": "array"}}},
    ]
}
_ONE_LEVEL: Final[dict[str, Any]] = {
    "not": {
        "required": ["confidence", "significance"],
        "properties": {"confidence": _NUMBER, "significance": _NUMBER},
    }
}


class _Strict(BaseModel):
    """Fields that are not known are refused, with the one that was probably meant."""

    model_config = ConfigDict(extra="forbid")

    @model_validator(mode="before")
    @classmethod
    def _suggest(cls, given: Any) -> Any:
        if isinstance(given, dict):
            unknown = next((name for name in given if name not in cls.model_fields), None)
            meant = unknown and near(str(unknown), cls.model_fields, n=1, alike=0.6)
            if meant:
                raise ValueError(f"There is no field {unknown}; did you mean {meant[0]}?")
        return given


OfModel = Annotated[
    Name | None, Field(description="Which of the model's recommenders; its first if not given.")
]


def _check_times(history: list[Id] | None, times: Times | None) -> None:
    if times is None:
        return
    if history is None:
        raise ValueError("times is about a history: give history, or leave times out")
    if len(times) != len(history):
        raise ValueError(
            f"times has {len(times):,} values and history has {len(history):,} items: give one "
            "time for each item"
        )


def _check_moment(at: Time | None, histories: list[list[Id] | None]) -> None:
    if at is not None and all(history is None for history in histories):
        raise ValueError("at is about a history: give history, or leave at out")


class _AboutPerson(_Strict):
    model_config = ConfigDict(extra="forbid", json_schema_extra=_PERSON)

    recommender: OfModel = None
    user: Id | None = Field(None, description="A user of the data.")
    history: Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)] | None = Field(
        None, description="What a person took, in order; beside `user`, what is known of that user."
    )
    times: Times | None = Field(None, description=_TIMES)
    at: Time | None = Field(None, description=_AT)

    group: Id | None = Field(
        None,
        description="The person's group, where the model has groups by a column of people's own; "
        "a user of the data has theirs.",
    )

    @model_validator(mode="after")
    def _somebody(self) -> Self:
        if self.user is None and self.history is None:
            raise ValueError("Say for whom: give user or history")
        _check_times(self.history, self.times)
        _check_moment(self.at, [self.history])
        return self


class _AtLevel(BaseModel):
    confidence: Fraction | None = Field(
        None, description=f"1 − ε, in (0, 1); {DEFAULT_CONFIDENCE} if neither is given."
    )
    significance: Fraction | None = Field(None, description="ε, instead of the confidence.")

    @model_validator(mode="after")
    def _one_level(self) -> Self:
        if self.confidence is not None and self.significance is not None:
            raise ValueError("Give confidence or significance (1 − confidence), not both")
        return self


class _Choosing(BaseModel):
    precision: Fraction | None = Field(
        None,
        description="For recommenders that promise precision: the share of what is shown that must "
        "be taken; the confidence is then that of this promise.",
    )
    min_probability: Fraction | None = Field(
        None, description="Only items taken at least so probably, which voids the guarantee."
    )
    items: Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)] | None = Field(
        None, description="The only items that may be recommended, with the same effect."
    )
    item_list: Name | None = Field(
        None, description="Only the items of this named list, with a promise on them."
    )
    unknown: Unknown = "check"


_PERSON_AND_LEVEL: Final = ConfigDict(extra="forbid", json_schema_extra={**_PERSON, **_ONE_LEVEL})


class AskPromise(_Choosing, _AtLevel, _AboutPerson):
    """Whom a set is for, how sure it must be, and what it may hold."""

    model_config = _PERSON_AND_LEVEL


class _Cutting(BaseModel):
    k: Annotated[StrictInt, Field(ge=1, le=MAX_ROWS), _AS_WHOLE] | None = Field(
        None, description="Cut the set to the k best, which voids the guarantee."
    )
    exclude: list[Id] = Field(
        default_factory=list,
        max_length=MAX_HISTORY,
        description="Items to leave out, with the same effect.",
    )


class AskRecommendations(_Cutting, _Choosing, _AtLevel, _AboutPerson):
    """Whom to recommend to, how surely, and how much of the set."""

    model_config = _PERSON_AND_LEVEL


class AskEntryConfidences(_AboutPerson):
    """Whom to assess all items for."""

    limit: Annotated[StrictInt, Field(ge=0, le=MAX_ROWS), _AS_WHOLE] = Field(
        500, description="How many of the best items to name; the curve is of all."
    )
    item_list: Name | None = Field(None, description="Only the items of this named list.")


class AskPValues(_AboutPerson):
    """Whom, and which items."""

    items: list[Id] = Field(min_length=1, max_length=MAX_ITEMS)
    unknown: Unknown = "check"


class AskExplanation(_AboutPerson):
    """Whom, and which item."""

    item: Id
    limit: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = Field(
        10, description="How many earlier items to name, those that say most."
    )


class AskBatch(_Choosing, _AtLevel, _Strict):
    """Which users to recommend to."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_ONE_LEVEL)

    recommender: OfModel = None
    users: list[Id] = Field(min_length=1, max_length=MAX_USERS)
    k: Annotated[StrictInt, Field(ge=1, le=MAX_BATCH_K), _AS_WHOLE] = Field(
        10, description="How many items for each."
    )


_MEMBER: Final[dict[str, Any]] = {"oneOf": _PERSON["anyOf"]}


class Member(_Strict):
    """One of a group: a user of the data, or somebody known by a history."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_MEMBER)

    user: Id | None = Field(None, description="A user of the data.")
    history: Annotated[list[Id], Field(min_length=1, max_length=MAX_HISTORY)] | None = Field(
        None, description="What somebody new took, in order."
    )
    times: Times | None = Field(None, description=_TIMES)
    name: Name | None = Field(None, description="What to call them; else the id, or a number.")

    @model_validator(mode="after")
    def _one_way(self) -> Self:
        if (self.user is None) == (self.history is None):
            raise ValueError("A member is a user, or somebody with a history: give one of the two")
        _check_times(self.history, self.times)
        return self


class _AboutGroup(_Strict):
    recommender: OfModel = None
    members: Annotated[list[Member], Field(min_length=2, max_length=MAX_MEMBERS)] = Field(
        description="Those who choose together."
    )
    at: Time | None = Field(None, description=_AT)
    together: (
        Literal[
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
        | None
    ) = Field(
        None,
        description="What is promised to the group; the model card says what can be. Of what any "
        "member takes, or twice the mean of p-values, if not given.",
    )

    @model_validator(mode="after")
    def _about_histories(self) -> Self:
        _check_moment(self.at, [member.history for member in self.members])
        return self


class AskGroupGuarantee(_AtLevel, _AboutGroup):
    """Which group a set is for, and how sure it must be."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_ONE_LEVEL)


class AskGroupRecommendations(_Cutting, _AtLevel, _AboutGroup):
    """Which group to recommend to, how surely, and how much of the set."""

    model_config = ConfigDict(extra="forbid", json_schema_extra=_ONE_LEVEL)


class AskGroupEntryConfidences(_AboutGroup):
    """Which group to assess all items for."""

    limit: Annotated[StrictInt, Field(ge=0, le=MAX_ROWS), _AS_WHOLE] = Field(
        500, description="How many of the best items to name; the curve is of all."
    )


class AskGroupExplanation(_AboutGroup):
    """Which group, and which item."""

    item: Id
    limit: Annotated[StrictInt, Field(ge=1, le=100), _AS_WHOLE] = Field(
        3, description="How many earlier items of each member to name, those that say most."
    )


class SentEvent(_Strict):
    """Somebody took something."""

    user: Id = Field(description="Known or new.")
    item: Id = Field(description="Known or new.")
    time: (
        Annotated[StrictStr, Field(max_length=40)]
        | Annotated[float, Field(strict=True, allow_inf_nan=False)]
        | None
    ) = Field(None, description="An ISO time, or seconds since 1970; now if not given.")
    id: Id | None = Field(None, description="What tells it from others, so that it is taken once.")


class AskEvents(_Strict):
    """Events in their order: all of them are taken, or none."""

    events: Annotated[list[SentEvent], Field(min_length=1, max_length=MAX_EVENTS)]


class AskForget(_Strict):
    """Whom to forget."""

    user: Id = Field(description="A user of the data, or of the events.")
