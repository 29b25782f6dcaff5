"""A model that takes events in, and keeps its promise as the world moves."""

from __future__ import annotations

import shutil
from contextlib import contextmanager
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from pathlib import Path
from threading import RLock, Thread
from typing import TYPE_CHECKING, Any, Final, Self

import polars as pl

from surerec._arguments import check_list, check_path
from surerec._calendar import day_of
from surerec.conformal import significance_of
from surerec.errors import InputError
from surerec.live._events import Event
from surerec.live._folder import SQLITE, LiveFolder
from surerec.live._ledger import JUDGED, Ledger, Terms, Window
from surerec.live._served import Served, check_can_live, lives_on
from surerec.live._store import StoredEvent
from surerec.recommenders import load

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator

    from surerec.live._store import Store, Transaction
    from surerec.recommenders import RecommendationSet, Recommender

_NEAR_NOTHING: Final = 1e-12
_GROWN: Final = 0.1  # of the base, at which it is counted anew
_LEAST_GROWN: Final = 1000


@dataclass(frozen=True)
class Observed:
    """What became of events that were sent; all of them are kept."""

    taken: int
    """New ones."""
    again: int
    """Those that had been sent before, which change nothing."""
    judged: int
    not_judged: dict[str, int]
    """By reason."""
    alarms: tuple[str, ...]
    """That they raised, in words."""


@dataclass(frozen=True)
class Receipt:
    """What was deleted of a person, and what was learned from them and stays; it names nobody."""

    at: str
    n_events: int
    """Events that were deleted."""
    n_items: int
    """Items of the profile that was taken out of the counts."""
    calibrated: bool
    """Whether they were a calibration user, and are taken out of the curve."""
    stays: tuple[str, ...]
    """What stays, and until when, in words."""


@dataclass(frozen=True)
class Status:
    """How a live model does."""

    folder: str
    store: str
    recommender: str
    counted: str
    """When the base was counted."""
    n_events: int
    n_since: int
    """Events since the base was counted."""
    n_judged: int
    not_judged: dict[str, int]
    promised: tuple[float, ...]
    """The confidences, from the highest on."""
    delivered: tuple[float, ...]
    """The share of judged events inside the sets of each."""
    within: tuple[float, ...]
    """How far each can be from what is promised, whatever happened."""
    alarms: tuple[str, ...]
    """The latest, last."""


class Live:
    """A model that takes events in, judges itself on each, and steers its sets by its errors.

    An event is in every answer as soon as it is acknowledged, and is safe then. Counts are those of
    a fit on all events, to the last digit. At the stated confidences the share of what people take
    that is outside of their sets goes to ε, whatever happens: see ``docs/live.md``.

    Parameters
    ----------
    folder : path-like
        What :meth:`create`, or ``surerec live init``, made.
    recount : bool, default=True
        Count anew in the background when events make up a tenth of the base.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
    ...     live.observe({"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"}).taken
    ...     11 in live.recommend(7, confidence=0.9).items
    1
    False
    """

    def __init__(self, folder: str | os.PathLike[str], *, recount: bool = True) -> None:
        self._folder = LiveFolder.open(Path(check_path("folder", folder)))
        self._recounts = recount
        self._lock = RLock()
        self._counting: Thread | None = None
        self._failed: BaseException | None = None
        self._store: Store = self._folder.open_store()
        try:
            self._reload()
        except BaseException:
            self._store.close()
            raise

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        model: Recommender,
        *,
        store: str = SQLITE,
        terms: Terms | None = None,
        recount: bool = True,
    ) -> Self:
        """Make a live model of a fitted one, in a new folder, and open it.

        Parameters
        ----------
        folder : path-like
            A new folder. It will hold people's histories: keep it as you keep those.
        model : PopulationConformal
            With one of the paper's measures; it is copied.
        store : str, default="sqlite"
            Where events go: a file in the folder, or the address of a PostgreSQL database, which
            several servers may share.
        terms : Terms, optional
            At which confidences a promise is kept, and when the alarm is raised.
        recount : bool, default=True
            As of the class.
        """
        fitted = check_can_live(model)
        made = LiveFolder.make(Path(check_path("folder", folder)), terms or Terms(), store)
        try:
            fitted.save(made.model(1), fitted.name_)
            events = made.open_store()
            try:
                with events.writing() as transaction:
                    if transaction.get("base") is not None:
                        raise InputError(
                            f"{events.name} has the events of a live model already: open that, or "
                            "name another database."
                        )
                    transaction.put("base", {"model": 1, "seq": 0, "counted": _now()})
                    transaction.put("ledger", Ledger.start(made.terms).to_state())
            finally:
                events.close()
            made.finish()
        except BaseException:
            shutil.rmtree(made.path, ignore_errors=True)
            raise
        return cls(folder, recount=recount)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Let go of the store, after a recount that is under way."""
        if self._counting is not None:
            self._counting.join()
        self._store.close()

    def observe(self, events: Any) -> Observed:
        """Take in one event, or several in their order; all of them are safe when this returns.

        Parameters
        ----------
        events : mapping or iterable of mappings
            With ``user``, ``item``, and perhaps ``time`` and ``id``; see :class:`Event`. Sent
            again, an event of the same id changes nothing; without an id, one of the same user,
            item and time.

        Raises
        ------
        InputError
            If one of them is no event; none is taken in then.
        StoreError
            If they could not be kept; none is taken in then, and they may be sent again.
        """
        with self._lock:
            given = self._checked(events)
            with self._writing() as transaction:
                found = self._take(transaction, given)
        self._recount_if_due()
        return found

    def _checked(self, events: Any) -> list[tuple[Event, str, str]]:
        if isinstance(events, (Event, dict)):
            events = [events]
        given = check_list("events", events, "events")
        now, checked = datetime.now(UTC), []
        for number, each in enumerate(given):
            where = "The event" if len(given) == 1 else f"Event {number + 1:,}"
            event = Event.of(each, now=now, where=where)
            try:
                ids = self._served.check(event.user, event.item)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
            checked.append((replace(event, user=ids[0], item=ids[1]), *ids))
        return checked

    def _take(self, transaction: Transaction, given: list[tuple[Event, str, str]]) -> Observed:
        ledger = Ledger.from_state(transaction.get("ledger"))
        known = transaction.known_keys([event.key for event, _, _ in given])
        seq, rows, raised, reasons = transaction.last(), [], [], dict[str, int]()
        for event, user, item in given:
            if event.key in known:
                continue
            known.add(event.key)
            seq += 1
            verdict = self._served.judge(user, item, event.time)
            if verdict.reason == JUDGED:
                ledger, closed, alarms = ledger.judge(verdict.level, event.time, verdict.groups)
                if closed is not None:
                    transaction.put(f"window {ledger.n_windows:09d}", closed.to_state())
                for place, sentence in enumerate(alarms, ledger.n_alarms - len(alarms)):
                    transaction.put(f"alarm {place:09d}", {"at": _now(), "says": sentence})
                raised += alarms
            else:
                ledger = ledger.passed_over(verdict.reason)
                reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
            rows.append(StoredEvent(seq, event.key, user, item, event.time, verdict.reason))
            self._served.add(user, item, event.time)
        transaction.append(rows)
        transaction.put("ledger", ledger.to_state())
        self._seq, self._ledger = seq, ledger
        n_judged = len(rows) - sum(reasons.values())
        return Observed(len(rows), len(given) - len(rows), n_judged, reasons, tuple(raised))

    def recommend(
        self,
        user: Any = None,
        *,
        history: Iterable[Any] | None = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        exclude: Iterable[Any] = (),
    ) -> RecommendationSet:
        """Recommend a set of items, with the promise that is kept live.

        Parameters
        ----------
        user, history, confidence, significance, k, exclude
            As in :meth:`surerec.PopulationConformal.recommend`. Other confidences than the stated
            ones get no live promise.
        """
        epsilon = significance_of(confidence, significance)
        with self._lock:
            self._catch_up()
            model, steering = self._served.recommender, self._ledger.steering
            query = model.query(user, history=history)
            place = steering.place_of(epsilon)
            cut = epsilon if place is None else steering.cuts_nested[place]
            inside = min(max(cut, _NEAR_NOTHING), 1 - _NEAR_NOTHING)
            with lives_on():
                found = model.recommend(query=query, significance=inside, k=k, exclude=exclude)
        if place is None:
            stated = ", ".join(f"{1 - each:.4g}" for each in steering.epsilons[::-1])
            says = f"None: a promise is kept live at the confidences {stated} only."
        elif len(query.history) < model.min_known:
            n = len(query.history)
            says = (
                f"None for this person: only {n} item{' is' if n == 1 else 's are'} known of them, "
                f"and events are judged from {model.min_known} on."
            )
        else:
            says = self._promise(place)
            if len(found) < found.full_size:
                says = f"None for this list, from which items were left out. The whole set: {says}"
        return replace(found, significance=epsilon, guarantee=says)

    def _promise(self, place: int) -> str:
        steering = self._ledger.steering
        epsilon, n = steering.epsilons[place], steering.n
        so_far = "no event has been judged yet"
        if n:
            so_far = (
                f"over {n:,} judged events it was {steering.delivered()[place]:.4f}, and cannot be "
                f"further from {epsilon:.4g} than {steering.bound(place):.2g}"
            )
        return (
            f"Of what people take, event by event and not person by person, a share that goes to "
            f"{epsilon:.4g} is outside such sets, whatever happens: {so_far}. Counts are of this "
            f"moment; the threshold that is steered is of {self._counted[:10]}."
        )

    def delivered(self) -> pl.DataFrame:
        """Give what was promised and delivered, window by window, the current one last.

        Returns
        -------
        polars.DataFrame
            ``window``, ``from``, ``until``, ``group`` (of people or items; "all"), ``confidence``,
            ``delivered``, ``unsteered`` (what would have been, without steering; null for groups)
            and ``n``, the judged events.
        """
        with self._lock:
            self._catch_up()
            with self._store.reading() as transaction:
                windows = [Window.from_state(each) for each in transaction.named("window ")]
            windows += [self._ledger.window] if self._ledger.window.n else []
            epsilons = self._ledger.steering.epsilons
        rows = [row for number, each in enumerate(windows) for row in _rows(number, each, epsilons)]
        return pl.DataFrame(rows, schema=_DELIVERED, orient="row")

    def status(self) -> Status:
        """Give how it does: promised and delivered, events by what became of them, alarms."""
        with self._lock:
            self._catch_up()
            with self._store.reading() as transaction:
                n_events = transaction.count()
                alarms = [
                    f"{each['at'][:16]}: {each['says']}" for each in transaction.named("alarm ")
                ]
            steering = self._ledger.steering
            places = range(len(steering.epsilons))
            return Status(
                str(self._folder.path),
                self._store.name,
                self._served.recommender.name_,
                self._counted,
                n_events,
                self._served.counts.n_added,
                steering.n,
                dict(self._ledger.not_judged),
                tuple(round(1 - each, 12) for each in steering.epsilons),
                tuple(1 - each for each in steering.delivered()),
                tuple(steering.bound(place) for place in places),
                tuple(alarms[-5:]),
            )

    def forget(self, user: Any) -> Receipt:
        """Delete a person: from the events and the counts at once, from files at the next recount.

        Parameters
        ----------
        user : id
            Whom.

        Returns
        -------
        Receipt
            What was deleted, and what stays that was learned from them; it does not name them.
        """
        with self._lock:
            with self._writing() as transaction:
                self._served.profiles.users.code(user)  # refuses whom nobody knows
                person = str(self._served.profiles.users.check(user))
                n_events = transaction.forget(person)
                n_items, calibrated = self._served.forget(person)
                self._seq = transaction.last()
            self._store.compact()
        stays = [
            "the files of the model counted last hold their profile until the next recount",
            "the cuts of the live promise, one number each, were moved by their events",
        ]
        if calibrated:
            stays.append("probabilities and named lists are not offered until the next recount")
        return Receipt(_now(), n_events, n_items, calibrated, tuple(stays))

    def recount(self, *, wait: bool = True) -> None:
        """Count and calibrate anew on all that is known, and serve that from then on.

        Events and questions go on meanwhile; it is taken over in one step, and whatever interrupts
        it, the old one or the new one serves.

        Parameters
        ----------
        wait : bool, default=True
            Return when it is taken over; else at once, and it goes on in the background.
        """
        with self._lock:
            if self._counting is None or not self._counting.is_alive():
                self._failed = None
                self._counting = Thread(target=self._recount, name="surerec-recount")
                self._counting.start()
            counting = self._counting
        if wait:
            counting.join()
            if self._failed is not None:
                raise self._failed

    def _recount_if_due(self) -> None:
        counts = self._served.counts
        grown = max(_LEAST_GROWN, _GROWN * counts.base.interactions.n_rows)  # type: ignore[union-attr]
        if self._recounts and counts.n_added >= grown:
            self.recount(wait=False)

    def _recount(self) -> None:
        try:
            with self._lock:
                self._catch_up()
                seq, counts = self._seq, self._served.counts
                old = self._served.recommender
                profiles = counts.interactions.settled()
            lists = {
                name: [item for item in items if item in profiles.items]
                for name, items in old.lists_.items()
            }
            fresh = type(old)(**old.get_params()).fit(
                profiles, lists={name: items for name, items in lists.items() if items}
            )
            number = self._folder.numbers()[-1] + 1
            fresh.save(self._folder.model(number), old.name_)
            with self._lock:
                with self._writing() as transaction:
                    ledger = Ledger.from_state(transaction.get("ledger"))
                    ledger = ledger.watching_anew(self._folder.terms)
                    transaction.put("ledger", ledger.to_state())
                    transaction.put("base", {"model": number, "seq": seq, "counted": _now()})
                    transaction.forget_names(until=seq)
                self._reload()
                self._store.compact()
        except BaseException as error:  # noqa: BLE001  # raised where it is waited for
            self._failed = error

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write everybody's profiles as they are now to a Parquet file; give the rows.

        A fit on it, here or on Spark, gives the same counts.

        Parameters
        ----------
        path : path-like
            The file: ``user_id``, ``item_id``, ``datetime``.
        """
        with self._lock:
            self._catch_up()
            frame = self._served.profiles.settled().to_frame()
        frame.write_parquet(check_path("path", path))
        return len(frame)

    @contextmanager
    def _writing(self) -> Iterator[Transaction]:
        """Give a transaction that knows what others wrote; what fails in it leaves no trace."""
        try:
            with self._store.writing() as transaction:
                self._refresh(transaction)
                yield transaction
        except BaseException:
            self._is_stale = True  # what was taken in on the way is dropped
            raise

    def _catch_up(self) -> None:
        """Take in what other servers wrote since."""
        with self._store.reading() as transaction:
            self._refresh(transaction)

    def _reload(self) -> None:
        self._is_stale = True
        self._catch_up()
        self._folder.remove_before(self._base)

    def _refresh(self, transaction: Transaction) -> None:
        base = transaction.get("base")
        if base is None:
            raise InputError(
                f"{self._store.name} has no events of a live model: restore it from a copy, or "
                "begin anew with surerec live init."
            )
        if self._is_stale or base["model"] != self._base:
            model = load(self._folder.model(int(base["model"])))
            self._served = Served(check_can_live(model))
            self._base, self._counted = int(base["model"]), str(base["counted"])
            self._seq = int(base["seq"])
            self._is_stale = False
        if self._seq < transaction.last():
            self._replay(transaction)
        self._ledger = Ledger.from_state(transaction.get("ledger"))

    _base = -1
    _is_stale = True

    def _replay(self, transaction: Transaction) -> None:
        """Take in what is stored behind what is known, in the order of commits."""
        forgotten = transaction.forgotten(self._seq)
        for event in transaction.events(self._seq):
            while forgotten and forgotten[0][0] < event.seq:
                self._forget_again(forgotten.pop(0)[1])
            self._served.add(event.person, event.item, event.time)
        for _, person in forgotten:
            self._forget_again(person)
        self._seq = transaction.last()

    def _forget_again(self, person: str) -> None:
        if person in self._served.profiles.users:
            self._served.forget(person)


_DELIVERED: Final = {
    "window": pl.Int64,
    "from": pl.String,
    "until": pl.String,
    "group": pl.String,
    "confidence": pl.Float64,
    "delivered": pl.Float64,
    "unsteered": pl.Float64,
    "n": pl.Int64,
}


def _rows(number: int, window: Window, epsilons: tuple[float, ...]) -> Iterator[tuple[Any, ...]]:
    when = day_of(window.first), day_of(window.last)
    for place, epsilon in enumerate(epsilons):
        confidence = round(1 - epsilon, 12)
        inside, unsteered = (
            1 - tally[place] / window.n for tally in (window.outside, window.unsteered)
        )
        yield number, *when, "all", confidence, inside, unsteered, window.n
        for group, (n, *outside) in sorted(window.groups.items()):
            yield number, *when, group, confidence, 1 - outside[place] / n, None, n


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="seconds")
