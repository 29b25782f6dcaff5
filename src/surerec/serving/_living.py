"""A live model behind the API: events come in, and every answer is of this moment."""

from __future__ import annotations

import gc
import hashlib
import math
from contextlib import suppress
from dataclasses import asdict, dataclass, field, replace
from typing import TYPE_CHECKING, Any, Final

from surerec.errors import StoreError
from surerec.live import FutureTimeError, Live, LiveFolder
from surerec.serving._metrics import (
    ALARMS,
    BY_USER_DAY,
    DELIVERED,
    EVENTS,
    HEAVIEST,
    JUDGED,
    USER_DAYS,
)
from surerec.serving._models import ServedModel, load_served, served_of
from surerec.serving._problems import Problem
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surerec.serving import _requests as ask
    from surerec.serving._search import TitleSearch

_WINDOWS: Final = 60  # that are told


def load(folder: Path) -> ServedModel:
    """Give the model of a folder, live or not, with every kernel it needs ready to run."""
    if not LiveFolder.is_one(folder):
        return load_served(folder)
    place = LiveFolder.open(folder)
    live = Live(folder, hold=False)
    model_id = hashlib.sha256(str(place.path.resolve()).encode()).hexdigest()[:12]
    with live.asking() as recommender:
        card = read_card(place.model(live.base_))
        made = served_of(card, {recommender.name_: recommender})
    _tell(live)
    card = {**made.card, "model": model_id, "live": True}
    for each in card["recommenders"]:
        each["guarantee"]["sentence"] = live.promise(each["guarantee"]["confidence"])
    # Without the recommender: it would keep the files of this base mapped after a recount.
    searches = {live.base_: made.search}
    return LiveModel(model_id, {}, card, made.search, live, folder=place, searches=searches)


@dataclass(frozen=True)
class LiveModel(ServedModel):
    """A model that takes events in; each answer is made of what is known when it is asked for."""

    folder: LiveFolder | None = None
    searches: dict[int, TitleSearch] = field(default_factory=dict)
    """By the number of the base."""

    def answer(self, make: Callable[..., Any], *asked: Any) -> Any:
        """Give an answer made of this moment's state; no event comes in between."""
        live = self.live
        assert live is not None  # noqa: S101  # it was made with one
        with live.asking() as recommender:
            return make(self._now(recommender), *asked)

    def _now(self, recommender: Any) -> ServedModel:
        """Give what answers need of the recommender as it is now."""
        assert self.live is not None  # noqa: S101
        assert self.folder is not None  # noqa: S101
        known = self.searches
        if self.live.base_ not in known:  # it was counted anew, and codes are other ones
            known.clear()
            gc.collect()  # what compiling left behind may hold arrays of the old base
            card = read_card(self.folder.model(self.live.base_))
            known[self.live.base_] = served_of(card, {recommender.name_: recommender}).search
        return replace(
            self,
            recommenders={recommender.name_: recommender},
            search=known[self.live.base_],
        )

    def refresh(self) -> None:
        """Take over a recount of another process, and release the model before it."""
        assert self.live is not None  # noqa: S101
        with suppress(StoreError), self.live.asking() as recommender:  # who asks next is told
            self._now(recommender)

    def close(self) -> None:
        """Let go of the store of events."""
        if self.live is not None:
            self.live.close()


def observe(model: ServedModel, asked: ask.EventsRequest) -> dict[str, Any]:
    """Take events in, and give what became of them."""
    live = _live(model)
    try:
        found = live.observe([event.model_dump(exclude_none=True) for event in asked.events])
    except FutureTimeError as error:
        ALARMS.inc(error.alerted)
        raise
    counts = {
        "judged": found.judged,
        **found.not_judged,
        "again": found.again,
        "refused": found.refused,
    }
    for verdict, n in counts.items():
        EVENTS.labels(verdict).inc(n)
    ALARMS.inc(len(found.alarms))
    _tell(live)
    return {**asdict(found), "alarms": list(found.alarms)}


def promise(model: ServedModel) -> dict[str, Any]:
    """Give what was promised and delivered."""
    live = _live(model)
    status, frame = live.status(), live.delivered().filter(group="all")
    delivered = [None if math.isnan(each) else each for each in status.delivered]
    return {
        "promised": list(status.promised),
        "delivered": delivered,
        "within": list(status.within),
        "observed_by_user_day": [
            None if math.isnan(each) else each for each in status.observed_by_user_day
        ],
        "n_user_days": status.n_user_days,
        "heaviest_share": status.heaviest_share,
        "n_events": status.n_events,
        "n_judged": status.n_judged,
        "not_judged": status.not_judged,
        "counted": status.counted,
        "n_since": status.n_since,
        "alarms": list(status.alarms),
        "windows": [
            {
                "until": rows["until"][0],
                "n": rows["n"][0],
                "delivered": rows["delivered"].to_list(),
                "unsteered": rows["unsteered"].to_list(),
            }
            for rows in frame.partition_by("window", maintain_order=True)[-_WINDOWS:]
        ],
    }


def forget(model: ServedModel, asked: ask.ForgetRequest) -> dict[str, Any]:
    """Forget a person, and give the receipt."""
    receipt = _live(model).forget(asked.user)
    return {**asdict(receipt), "stays": list(receipt.stays)}


def _live(model: ServedModel) -> Live:
    if model.live is None:
        raise Problem(
            409, "This model takes no events: make it live with surerec live init, and serve that."
        )
    return model.live


def _tell(live: Live) -> None:
    """Tell Prometheus what is delivered."""
    steering = live.steering_
    JUDGED.set(steering.n)
    USER_DAYS.set(steering.user_days)
    for epsilon, missed, by_user_day in zip(
        steering.epsilons, steering.delivered(), steering.observed_by_user_day(), strict=True
    ):
        if steering.n:
            DELIVERED.labels(f"{1 - epsilon:g}").set(1 - missed)
            BY_USER_DAY.labels(f"{1 - epsilon:g}").set(1 - by_user_day)
    HEAVIEST.set(live.heaviest_share_ or 0)
