"""What is answered, in the vocabulary of the Python API."""

from __future__ import annotations

from typing import Any

from pydantic import BaseModel, Field

Text = str | None
Number = float | None
AnyId = int | str


class Recommended(BaseModel):
    """An item of a set."""

    item_id: AnyId
    rank: int
    score: Number = Field(description="How well it conforms; null where that is minus infinity.")
    p_value: Number = Field(None, description="Left out by recommenders without p-values.")
    entry_confidence: Number = Field(description="The confidence above which it is in the set.")
    probability: Number = Field(
        None, description="That it is taken within the stated future; over users only."
    )
    probability_low: Number = Field(None, description="The interval of the curve, 95 % over users.")
    probability_high: Number = None
    title: Text


class GuaranteeFields(BaseModel):
    """What is guaranteed, to whom and under which assumptions; see surerec.Guarantee."""

    sentence: str = Field(description="All of it in words.")
    kind: str = Field(description="item, recall, hit, precision, live, probability or none.")
    level: Number = Field(description="The nominal level.")
    precision: Number
    claim: str
    horizon: str = Field(description="The future that is covered.")
    n_calibration: int | None
    period: list[str] | None = Field(description="The first and the last day that calibrated it.")
    covers: str = Field(description="Who is covered.")
    assumptions: list[str]
    holds: bool
    reason: str = Field(description="Why it does not hold; empty if it does.")
    full: GuaranteeFields | None = Field(description="Of the full set, if items were left out.")


class GuaranteeAnswer(BaseModel):
    """What a set promises."""

    recommender: str
    confidence: Number
    significance: Number
    precision: Number = Field(description="The promised share of what is shown, if that is asked.")
    guarantee: GuaranteeFields
    about_probability: str = Field(description="What the probabilities mean; empty without any.")
    full_size: int = Field(description="Items in the whole set.")
    n_candidates: int = Field(description="Items that were up for recommendation.")
    highest_confidence: float = Field(
        description="The highest confidence at which this profile can leave anything out."
    )
    everything_qualifies: bool
    ignored: list[AnyId] = Field(description="Ids of the history that nobody in the data took.")
    unknown_items: list[AnyId] = Field(description="Ids of `items` that were skipped as unknown.")


class RecommendationsAnswer(GuaranteeAnswer):
    """A set, best first."""

    items: list[Recommended]


class Curve(BaseModel):
    """How many items are in the set at any confidence above each entry confidence."""

    entry_confidence: list[float]
    size: list[int]


class RankedColumns(BaseModel):
    """The best items, as columns."""

    item_id: list[AnyId]
    title: list[Text]
    genres: list[Text] = Field(description="Such as Comedy, Drama; null where none are known.")
    score: list[Number]
    p_value: list[Number] | None = Field(
        None, description="Left out by recommenders without p-values."
    )
    entry_confidence: list[Number]
    probability: list[Number]


class KnownColumns(BaseModel):
    """What the person took, the latest last."""

    item_id: list[AnyId]
    title: list[Text]


class EntryConfidencesAnswer(BaseModel):
    """One answer for every confidence: cut it where `entry_confidence` is below the wanted one."""

    recommender: str
    gives_confidence: bool = Field(description="False for a ranking, and for promised precision.")
    promises_precision: bool
    about_probability: str
    n_candidates: int
    highest_confidence: float
    curve: Curve
    items: RankedColumns
    history: KnownColumns
    history_length: int
    ignored: list[AnyId]


class Assessed(BaseModel):
    """An item's p-value, and the confidence above which it is in the set."""

    item_id: AnyId
    p_value: Number = Field(None, description="Left out by recommenders without p-values.")
    entry_confidence: Number
    title: Text


class PValuesAnswer(BaseModel):
    """The p-value of each item asked for."""

    recommender: str
    ignored: list[AnyId]
    unknown_items: list[AnyId] = Field(description="Ids of `items` that were skipped as unknown.")
    items: list[Assessed]


class Because(BaseModel):
    """An earlier item, and what its takers did."""

    item_id: AnyId
    title: Text
    support: int = Field(description="Other users who took it.")
    later: int = Field(description="Of them, took the explained item later.")
    earlier: int = Field(description="Of them, had taken the explained item before.")
    share: float = Field(description="later / support.")


class ExplanationAnswer(BaseModel):
    """Why an item is where it is."""

    recommender: str
    item_id: AnyId
    title: str
    score: Number
    p_value: Number
    entry_confidence: Number
    n_calibration: int
    sentences: list[str]
    because: list[Because]
    ignored: list[AnyId]


class BatchRow(BaseModel):
    """An item for a user."""

    user_id: AnyId
    item_id: AnyId
    rank: int
    score: Number
    p_value: Number = Field(None, description="Left out by recommenders without p-values.")
    entry_confidence: Number
    probability: Number = None
    probability_low: Number = None
    probability_high: Number = None
    covered: bool = Field(description="Whether the guarantee covers this user.")


class BatchAnswer(BaseModel):
    """The best items of each user, in the order asked for."""

    recommender: str
    confidence: Number
    significance: Number
    guarantee: GuaranteeFields
    unknown_users: list[AnyId]
    unknown_items: list[AnyId] = Field(description="Ids of `items` that were skipped as unknown.")
    items: list[BatchRow]


class ServedMember(BaseModel):
    """A member of a group, and how well the set serves them."""

    member: AnyId
    satisfaction: Number = Field(
        description="The share of their own best items, as many as the set holds, that is in it."
    )


class GroupGuaranteeAnswer(GuaranteeAnswer):
    """What a group's set promises, and how it serves each member."""

    together: str
    formed: str = Field(description="Which groups the promise is about, in words.")
    members: list[ServedMember]
    least_served: AnyId | None


class GroupRecommended(Recommended):
    """An item of a group's set."""

    member_ranks: list[int] = Field(description="Its rank for each member alone.")
    member_values: list[float] = Field(description="The same, from 1 for the best down to 0.")


class GroupRecommendationsAnswer(GroupGuaranteeAnswer):
    """A group's set, best first."""

    items: list[GroupRecommended]


class GroupColumns(RankedColumns):
    """The best items of a group, as columns; for each item, a value for each member."""

    member_values: list[list[float]]


class GroupEntryConfidencesAnswer(BaseModel):
    """One answer for every confidence."""

    recommender: str
    gives_confidence: bool
    promises_precision: bool
    about_probability: str
    together: str
    members: list[AnyId]
    n_candidates: int
    highest_confidence: float
    curve: Curve
    items: GroupColumns
    titles: dict[str, Text] = Field(description="Of the items of the members' own histories.")
    history_length: int
    ignored: list[AnyId]


class MemberBecause(BaseModel):
    """What speaks for an item, to one member."""

    member: AnyId
    rank: int = Field(description="Its rank for this member alone.")
    sentences: list[str]
    because: list[Because]


class GroupExplanationAnswer(BaseModel):
    """Why an item is where it is for a group, by member."""

    recommender: str
    item_id: AnyId
    title: str
    rank: int
    n_candidates: int
    entry_confidence: Number
    members: list[MemberBecause]


class FoundItem(BaseModel):
    """An item that a search found."""

    item_id: AnyId
    title: Text
    genres: Text
    support: int


class Found(BaseModel):
    """What a search found, the likeliest first."""

    items: list[FoundItem]


class CardGuarantee(GuaranteeFields):
    """What is guaranteed to a user who consumed the most popular items."""

    history_length: int


class CardRecommender(BaseModel):
    """One of the model's recommenders."""

    name: str
    kind: str
    headline: str = Field(description="What it promises at 90%, without the assumption.")
    params: dict[str, Any]
    gives_confidence: bool
    gives_probabilities: bool
    promises_precision: bool
    lists: list[str] = Field(description="The named lists that `among` may name.")
    together: list[str] = Field(description="What groups can be promised; empty if nothing.")
    group_sizes: list[int] = Field(
        description="The sizes of groups that were calibrated; empty where any size will do."
    )
    guarantee: CardGuarantee


class Counts(BaseModel):
    """How much the model holds."""

    users: int
    items: int
    rows: int | None


class ModelCard(BaseModel):
    """What the model says of itself."""

    model: str = Field(description="Named by its content; also in the header Surerec-Model.")
    format: str
    format_version: int
    created: str
    updated: str
    data: Text
    counts: Counts
    settings: dict[str, str]
    recommenders: list[CardRecommender]
    live: bool = Field(False, description="Whether it takes events in and tells of its promise.")


class Status(BaseModel):
    """How the server is."""

    status: str


class Reloaded(BaseModel):
    """What became of a takeover."""

    model: str
    changed: bool
    workers: int


class ObservedAnswer(BaseModel):
    """What became of events."""

    taken: int = Field(description="New ones, which are safe now.")
    again: int = Field(description="Those that had been sent before, which change nothing.")
    judged: int
    not_judged: dict[str, int] = Field(description="By reason.")
    alarms: list[str] = Field(description="That they raised, in words.")
    refused: int = Field(description="Events on new items above the limit, which are not kept.")


class PromiseWindow(BaseModel):
    """What was delivered over some judged events in a row; from the highest confidence on."""

    until: str = Field(description="The day of the last of them.")
    n: int
    delivered: list[float]
    unsteered: list[float] = Field(description="What would have been without steering.")


class PromiseAnswer(BaseModel):
    """What was promised and delivered over all judged events; from the highest confidence on."""

    promised: list[float] = Field(description="Confidences.")
    delivered: list[float | None] = Field(
        description="The share of judged events inside the sets of each; null before the first."
    )
    within: list[float] = Field(
        description="How far each of observed_by_user_day can be from what is promised."
    )
    observed_by_user_day: list[float | None] = Field(
        description="The same as delivered, with each user and day counted once."
    )
    n_user_days: int = Field(description="Days of users with a judged event.")
    heaviest_share: float | None = Field(
        description="The share of this day's judged events from the heaviest 1% of users."
    )
    n_events: int
    n_judged: int
    not_judged: dict[str, int] = Field(description="By reason.")
    counted: str = Field(description="When the base was counted; its thresholds are of then.")
    n_since: int = Field(description="Events since then, which are in the counts.")
    alarms: list[str] = Field(description="The latest, last.")
    windows: list[PromiseWindow] = Field(description="Of 2,000 judged events each, the last 60.")


class ReceiptAnswer(BaseModel):
    """What was deleted of a person, and what was learned from them and stays."""

    at: str
    n_events: int
    n_items: int
    calibrated: bool
    stays: list[str]


class ProblemDetail(BaseModel):
    """Why a request was not answered (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str = Field(description="One sentence for whoever made the request.")
