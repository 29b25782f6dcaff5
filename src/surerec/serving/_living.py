"""A live model behind the API: events come in, and every answer is of this moment."""

from __future__ import annotations

import gc
import hashlib
import math
from contextlib import suppress
from dataclasses import asdict, dataclass, replace
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
from surerec.serving._models import ServedModel, load_served, search_of, served_of
from surerec.serving._problems import Problem
from surerec.storage import read_card

if TYPE_CHECKING:
    from collections.abc import Callable
    from pathlib import Path

    from surerec.recommenders import FittedModel
    from surerec.serving import _requests as ask
    from surerec.serving._search import TitleSearch

_WINDOWS: Final = 60  # that are told
_PRIVATE: Final = ("folder", "store", "recommender")  # fields of a status


def load(folder: Path) -> ServedModel:
    """Give the model of a folder, live or not, with every kernel it needs ready to run."""
    if not LiveFolder.is_one(folder):
        return load_served(folder)
    place = LiveFolder.open(folder)
    live = Live(folder, hold=False)
    model_id = hashlib.sha256(str(place.path.resolve()).encode()).hexdigest()[:12]
    with live.asking() as model:
        made = served_of(read_card(place.model(live.base_)), {model.name: model})
    _tell(live)
    card = {**made.card, "model": model_id, "live": True}
    # Without the model: it would keep the files of this base mapped after a refit.
    return LiveModel(model_id, {}, card, made.search, live, {live.base_: made.search})


@dataclass(frozen=True)
class LiveModel(ServedModel):
    """A model that ingests events; each answer is from the fitted model of its moment."""

    live: Live
    searches: dict[int, TitleSearch]
    """By the number of the base."""

    def answer(self, make: Callable[..., Any], *asked: Any) -> Any:
        """Return an answer made of this moment's state; no event comes in between."""
        with self.live.asking() as model:
            return make(self._now(model), *asked)

    def _now(self, model: FittedModel) -> ServedModel:
        """Return what answers need of the fitted model of this moment."""
        known, base = self.searches, self.live.base_
        if base not in known:  # it was refitted, and codes are other ones
            known.clear()
            gc.collect()  # what compiling left behind may hold arrays of the old base
            known[base] = search_of(model)
        return replace(self, models={model.name: model}, search=known[base])

    def refresh(self) -> None:
        """Take over a refit of another process, and release the model before it."""
        with suppress(StoreError), self.live.asking() as model:  # the next request raises it
            self._now(model)

    def check(self) -> None:
        """Check, without waiting, that the store can keep events."""
        self.live.check_store()

    def close(self) -> None:
        """Close the store of events."""
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
    status, frame = asdict(live.status()), live.delivered().filter(group="all")
    told = {
        name: list(value) if isinstance(value, tuple) else value
        for name, value in status.items()
        if name not in _PRIVATE
    }
    for name in ("delivered", "observed_by_user_day"):
        told[name] = [None if math.isnan(each) else each for each in told[name]]
    return {
        **told,
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
    if not isinstance(model, LiveModel):
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
