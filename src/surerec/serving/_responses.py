"""The responses: each operation's answer is declared here once, for the description and for JSON.

``to_dict()`` of a result makes the dictionary, which is serialised by these types.
"""

from __future__ import annotations

from typing import Any, NotRequired, TypeAlias

from pydantic import ConfigDict
from typing_extensions import TypedDict

AnyId: TypeAlias = int | str
Text: TypeAlias = str | None
Number: TypeAlias = float | None


class _Response(TypedDict):
    """The fields of a response; there are no others."""


_Response.__pydantic_config__ = ConfigDict(  # type: ignore[attr-defined]
    extra="forbid", use_attribute_docstrings=True
)


class Guarantee(_Response):
    """What an answer guarantees, to whom and under which assumptions."""

    sentence: str
    kind: str
    level: Number
    """The nominal level: the confidence that was asked for."""
    precision: Number
    """The share of the shown items that is consumed, where precision is guaranteed."""
    claim: str
    horizon: str
    n_calibration: int | None
    """The calibration items, users or groups behind it."""
    period: list[str] | None
    """The first and the last day of the held-out interactions."""
    covers: str
    assumptions: list[str]
    holds: bool
    reason: str
    """Why it does not hold; empty if it does."""
    full: Guarantee | None
    """The guarantee of the full set, where items were left out of it."""


class RecommendedItem(_Response):
    """An item of a set."""

    item_id: AnyId
    rank: int
    score: Number
    """How well it conforms; null if that is minus infinity."""
    p_value: NotRequired[Number]
    """Left out by recommenders without p-values."""
    entry_confidence: Number
    """The confidence above which the item is in the set."""
    probability: NotRequired[Number]
    """Probability that it is consumed within the stated horizon, with a user-level calibration."""
    probability_low: NotRequired[Number]
    """Lower end of the 95% interval of the probability curve over users."""
    probability_high: NotRequired[Number]
    """Upper end of that interval."""
    title: Text
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
    guarantee: Guarantee
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
    together: NotRequired[str]
    """Of a group: the kind of its guarantee."""
    formed: NotRequired[str]
    """Of a group: the groups that the guarantee is about."""
    covered: NotRequired[bool]
    """Of a group: whether the guarantee of the whole set covers it."""
    members: NotRequired[list[ServedMember]]
    """Of a group: its members."""
    least_served: NotRequired[AnyId | None]
    """Of a group: the member with the smallest satisfaction."""


class SizeCurve(_Response):
    """How many items are in the set at any confidence above each entry confidence."""

    entry_confidence: list[float]
    size: list[int]


class RankedColumns(_Response):
    """The best items, as columns."""

    item_id: list[AnyId]
    title: list[Text]
    genres: list[Text]
    """Such as Comedy, Drama; null where none are known."""
    score: list[Number]
    p_value: NotRequired[list[Number]]
    """Left out by recommenders without p-values."""
    entry_confidence: list[Number]
    probability: list[Number]
    member_values: NotRequired[list[list[float]]]
    """For a group: a value for each member, from 1 for their best item down to 0."""


class TitledColumns(_Response):
    """Items with their titles, as columns."""

    item_id: list[AnyId]
    title: list[Text]


class EntryConfidencesResponse(_Response):
    """One answer for every confidence: cut it where `entry_confidence` is below the wanted one."""

    recommender: str
    gives_confidence: bool
    """False for a ranking, and for a guarantee of precision."""
    promises_precision: bool
    about_probability: str
    n_candidates: int
    highest_confidence: float
    curve: SizeCurve
    items: RankedColumns
    history: TitledColumns
    """The latest items of the user, the last one last; of a group, what new users consumed."""
    history_length: int
    ignored: list[AnyId]
    together: NotRequired[str]
    """Of a group: the kind of its guarantee."""
    members: NotRequired[list[AnyId]]
    """Of a group: its members."""


class AssessedItem(_Response):
    """An item's p-value, and the confidence above which it is in the set."""

    item_id: AnyId
    p_value: NotRequired[Number]
    """Left out by recommenders without p-values."""
    entry_confidence: Number
    title: Text


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


class BatchItem(_Response):
    """An item for a user."""

    user_id: AnyId
    item_id: AnyId
    rank: int
    score: Number
    p_value: NotRequired[Number]
    """Left out by recommenders without p-values."""
    entry_confidence: Number
    probability: NotRequired[Number]
    probability_low: NotRequired[Number]
    probability_high: NotRequired[Number]
    covered: bool
    """Whether the guarantee covers this user."""
    title: NotRequired[Text]


class BatchResponse(_Response):
    """The best items of each user, in the order asked for."""

    recommender: str
    confidence: Number
    significance: Number
    guarantee: Guarantee
    unknown_users: list[AnyId]
    unknown_items: list[AnyId]
    """Ids of `items` that were skipped as unknown."""
    items: list[BatchItem]


class FoundItem(_Response):
    """An item that a search found."""

    item_id: AnyId
    title: Text
    genres: Text
    support: int


class FoundResponse(_Response):
    """The items that a search found, the likeliest first."""

    items: list[FoundItem]


class CardGuarantee(Guarantee):
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
    promises_precision: bool
    lists: list[str]
    """The item lists that `item_list` may name."""
    together: list[str]
    """The kinds of guarantees for groups; empty if there are none."""
    group_sizes: list[int]
    """The sizes of groups that were calibrated; empty if any size can be asked for."""
    guarantee: CardGuarantee


class ModelCounts(_Response):
    """How much the model holds."""

    users: int
    items: int
    rows: int | None


class ModelResponse(_Response):
    """The model card."""

    model: str
    """Named by its content; also in the header Surerec-Model."""
    format: str
    format_version: int
    created: str
    updated: str
    data: Text
    counts: ModelCounts
    settings: dict[str, str]
    recommenders: list[CardRecommender]
    live: NotRequired[bool]
    """Whether it ingests events and tracks its coverage."""


class StatusResponse(_Response):
    """Whether the server can answer."""

    status: str


class ReloadResponse(_Response):
    """The result of a reload."""

    model: str
    changed: bool
    workers: int


class EventsResponse(_Response):
    """What became of events."""

    taken: int
    """New ones, which are stored now."""
    again: int
    """Those that had been sent before, which change nothing."""
    judged: int
    not_judged: dict[str, int]
    """By reason."""
    alarms: list[str]
    """Drift alerts that they raised."""
    refused: int
    """Events on new items above the limit, which are not kept."""


class LiveWindow(_Response):
    """The coverage of some judged events in a row, from the highest confidence on."""

    until: str
    """The day of the last of them."""
    n: int
    delivered: list[float]
    unsteered: list[float]
    """The coverage without adapted thresholds."""


class LiveResponse(_Response):
    """Nominal and observed coverage over all judged events, from the highest confidence on."""

    promised: list[float]
    """Confidences."""
    delivered: list[Number]
    """The share of judged events inside the sets of each; null before the first."""
    within: list[float]
    """How far each of observed_by_user_day can be from the nominal level."""
    observed_by_user_day: list[Number]
    """The same as delivered, with each user and day counted once."""
    n_user_days: int
    """Days of users with a judged event."""
    heaviest_share: Number
    """The share of this day's judged events from the heaviest 1% of users."""
    n_events: int
    n_judged: int
    not_judged: dict[str, int]
    """By reason."""
    counted: str
    """When the base was counted; its thresholds are of then."""
    n_since: int
    """Events since then, which are in the counts."""
    alarms: list[str]
    """The latest, last."""
    windows: list[LiveWindow]
    """Of 2,000 judged events each, the last 60."""


class ForgetResponse(_Response):
    """What was deleted of a user, and what was learned from them and stays."""

    at: str
    n_events: int
    n_items: int
    calibrated: bool
    stays: list[str]


class ProblemDetail(_Response):
    """Why a request was not answered (RFC 9457)."""

    type: str
    title: str
    status: int
    detail: str
    """One sentence for the caller."""
