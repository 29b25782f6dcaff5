"""A live model: it ingests events, tracks its own coverage and adapts its thresholds online."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import dataclass, replace
from datetime import UTC, date, datetime, timedelta
from functools import update_wrapper
from pathlib import Path
from typing import TYPE_CHECKING, Any, Concatenate, Final, ParamSpec, Self, TypeVar

import polars as pl
from polars.exceptions import PolarsError

from surerec._arguments import check_list, check_path, check_whole
from surerec._files import check_utf8, file_aside
from surerec._threads import one_thread
from surerec.conformal import UserDay
from surerec.errors import InputError, StoreError
from surerec.live._events import Event, FutureTimeError, check_can_live, usual_levels
from surerec.live._ledger import (
    ABOVE_LIMIT,
    JUDGED,
    Ledger,
    LiveTerms,
    SenderDay,
    Window,
    now_text,
    observed_frame,
    usual_limit,
)
from surerec.live._state import PAUSE, SQLITE, LiveFolder, LiveState, RefitJob
from surerec.live._store import StoredEvent
from surerec.recommenders import FittedModel

if TYPE_CHECKING:
    import os
    from collections.abc import Callable, Iterator, Sequence

    from surerec.conformal import AdaptiveLevel
    from surerec.live._store import Transaction
    from surerec.recommenders import Recommender

P = ParamSpec("P")
R = TypeVar("R")

_GROWN: Final = 0.1  # of the base, at which it is refitted
_LEAST_GROWN: Final = 1000


@dataclass(frozen=True)
class Ingestion:
    """What became of events that were sent; all are kept but for those that were refused."""

    consumed: int
    """New ones."""
    again: int
    """Those that had been sent before, which change nothing."""
    judged: int
    not_judged: dict[str, int]
    """By reason."""
    alerts: tuple[str, ...]
    """That they raised, in words."""
    refused: int
    """Events on new items above the limit, which are not kept; see :class:`LiveTerms`."""


@dataclass(frozen=True)
class Receipt:
    """What was deleted of a user, and what was learned from them and stays; it names nobody."""

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

    counted: str
    """When the base was fitted."""
    n_events: int
    n_since: int
    """Events since the base was fitted."""
    n_judged: int
    not_judged: dict[str, int]
    nominal: tuple[float, ...]
    """The confidences, from the highest on."""
    observed: tuple[float | None, ...]
    """The share of judged events inside the sets of each; None before the first."""
    within: tuple[float, ...]
    """How far each of `observed_by_user_day` can be from what is nominal, whatever happened."""
    alerts: tuple[str, ...]
    """The latest, last."""
    n_user_days: int
    """Days of users with a judged event, by the server's clock."""
    observed_by_user_day: tuple[float | None, ...]
    """The same as `delivered` with each user and day counted once: the mean of their shares."""
    heaviest_share: float | None
    """The share of this day's judged events from the heaviest 1% of users; None of none."""


def today() -> str:
    """Return the present day, in UTC."""
    return now_text()[:10]


def _asked(
    question: Callable[Concatenate[FittedModel, P], R],
) -> Callable[Concatenate[Live, P], R]:
    """Return a method that asks the fitted model of this moment."""

    def ask(self: Live, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.asking() as model:
            return question(model, *args, **kwargs)

    update_wrapper(ask, question)
    return ask


class Live:
    """A model that ingests events, tracks its own coverage and adapts its thresholds online.

    An event is in every answer as soon as it is acknowledged, and is safe then. Counts are those of
    a fit on all events, to the last digit. At the stated confidences, the share of what users
    consume that is outside of their sets goes to ε, whatever happens: see ``docs/live.md``.
    It answers as :class:`surerec.recommenders.FittedModel` does.

    Parameters
    ----------
    folder : path-like
        What :meth:`create`, or ``surerec live init``, made.
    recount : bool, default=True
        Refit in the background when events make up a tenth of the base.
    hold : bool, default=True
        Keep other processes out of an SQLite store. The workers of one server do not, as the server
        does it for them.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
    ...     live.observe({"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"}).taken
    ...     11 in live.recommend(7, confidence=0.9).items
    1
    False
    """

    def __init__(
        self, folder: str | os.PathLike[str], *, refit: bool = True, hold: bool = True
    ) -> None:
        place = LiveFolder.open(Path(check_path("folder", folder)))
        store = place.open_store(hold=hold)
        try:
            self._state = LiveState(place, store)
        except BaseException:
            store.close()
            raise
        self._refits = refit
        self._refit = RefitJob(place.path / "recount.lock")

    @classmethod
    def create(
        cls,
        folder: str | os.PathLike[str],
        model: Recommender,
        *,
        store: str = SQLITE,
        terms: LiveTerms | None = None,
        refit: bool = True,
    ) -> Self:
        """Create a live model from a fitted one, in a new folder, and open it.

        Parameters
        ----------
        folder : path-like
            A new folder. It will hold users' histories: protect it as you protect those.
        model : Recommender
            Calibrated over users, with one of the paper's measures, or the learned one, whose trees
            stay as they are until the next refit; it is copied.
        store : str, default="sqlite"
            Where events go: a file in the folder, or the address of a PostgreSQL database, which
            several servers may share.
        terms : LiveTerms, optional
            At which confidences a promise is kept, and when the alarm is raised.
        recount : bool, default=True
            As of the class.
        """
        fitted = check_can_live(model)
        terms = (terms or LiveTerms()).for_items(fitted.statistics_.n_items)
        made = LiveFolder.make(Path(check_path("folder", folder)), terms, store)
        try:
            fitted.save(made.make_model(1), fitted.name_)
            ledger = Ledger.start(made.terms)
            ledger.refit(made.terms, *_usual(fitted.model_))
            events = made.open_store()
            try:
                with events.writing() as transaction:
                    if transaction.get("base") is not None:
                        raise InputError(
                            f"{events.name} has the events of a live model already: open that, or "
                            "name another database."
                        )
                    transaction.put("base", {"model": 1, "seq": 0, "counted": now_text()})
                    transaction.put("ledger", ledger)
            finally:
                events.close()
            made.finish()
        except BaseException:
            shutil.rmtree(made.path, ignore_errors=True)
            raise
        return cls(folder, refit=refit)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def close(self) -> None:
        """Close the store, after a refit that is running."""
        self._refit.close()
        self._state.store.close()

    # Questions.

    @contextmanager
    def asking(self) -> Iterator[FittedModel]:
        """Yield the fitted model of this moment; no event is ingested while it is asked."""
        state = self._state
        with state.lock:
            state.catch_up()
            yield state.growing.adapted(state.ledger.adaptive, state.counted)

    recommend = _asked(FittedModel.recommend)
    recommend_many = _asked(FittedModel.recommend_many)
    recommend_groups = _asked(FittedModel.recommend_groups)
    p_values = _asked(FittedModel.p_values)
    explain = _asked(FittedModel.explain)
    explain_group = _asked(FittedModel.explain_group)

    # Events.

    def observe(self, events: Any, *, names: Sequence[str] | None = None) -> Ingestion:
        """Take in one event, or several in their order; all of them are safe when this returns.

        Parameters
        ----------
        events : mapping or iterable of mappings
            With ``user``, ``item``, and perhaps ``time`` and ``id``; see :class:`Event`. Sent
            again, an event of the same id changes nothing; without an id, one of the same user,
            item and time.
        names : sequence of str, optional
            What to call each of them in an error, such as the line that it was read from.

        Raises
        ------
        InputError
            If one of them is no event; none is taken in then.
        FutureTimeError
            If the time of one is more than 5 minutes ahead of this clock; none is taken in then,
            and an alert is raised once a day.
        StoreError
            If they could not be kept; none is taken in then, and they may be sent again.
        """
        state = self._state
        with state.lock:
            try:
                given = self._checked(events, names)
            except FutureTimeError as error:
                self._alert_of(error)
                raise
            with state.writing() as transaction, one_thread():
                found = self._take(transaction, given)
            counts = state.growing.statistics
        grown = max(_LEAST_GROWN, _GROWN * counts.base.interactions.n_rows)
        if self._refits and counts.n_added >= grown and self._refit.may_start:
            self.refit(wait=False)
        return found

    def _alert_of(self, error: FutureTimeError) -> None:
        """Raise the alert that an event was refused for its time, unless this day had it."""
        with suppress(StoreError), self._state.writing() as transaction:
            alerts = self._at(transaction, today()).once_a_day({"future time": f"Refused: {error}"})
            self._state.keep(transaction, alerts)
            error.alerted = bool(alerts)

    def _checked(self, events: Any, names: Sequence[str] | None) -> list[Event]:
        if isinstance(events, dict):
            events = [events]
        given = check_list("events", events, "events")
        now, checked = datetime.now(UTC), []
        for number, each in enumerate(given):
            where = "The event" if len(given) == 1 else f"Event {number + 1:,}"
            where = where if names is None else names[number]
            event = Event.of(each, now=now, where=where)
            try:
                user, item = self._state.growing.check(event.user, event.item)
            except InputError as error:
                raise InputError(f"{where}: {error}") from error
            checked.append(replace(event, user=user, item=item))
        return checked

    def _at(self, transaction: Transaction, day: str) -> Ledger:
        """Return the ledger at a day; users' counts of the days before yesterday are dropped."""
        ledger = self._state.ledger
        if ledger.today.day != day:
            yesterday = date.fromisoformat(day) - timedelta(days=1)
            transaction.drop_user_days(before=yesterday.isoformat())
            ledger.today = SenderDay(day)
        return ledger

    def _take(self, transaction: Transaction, given: list[Event]) -> Ingestion:
        state, growing, terms = self._state, self._state.growing, self._state.folder.terms
        day = today()  # the server's: a sender chooses the times of events
        ledger = self._at(transaction, day)
        known = transaction.known_keys([event.key for event in given])
        user_days = transaction.user_days(day, list({event.user for event in given}))
        seq, rows, alerts, reasons = transaction.last(), [], list[str](), dict[str, int]()
        n_again = refused = 0
        for event in given:
            user, item = event.user, event.item
            if event.key in known:
                n_again += 1
                continue
            if growing.is_new(item) and not ledger.admit(terms):
                ledger.pass_over(ABOVE_LIMIT)
                refused += 1
                continue
            known.add(event.key)
            seq += 1
            verdict = growing.judge(user, item, event.time)
            if verdict.reason == JUDGED:
                so_far = user_days.get(user, UserDay())
                user_days[user] = so_far.after(ledger.adaptive.missed(verdict.level))
                watched = verdict.watched and not so_far.n
                closed, raised = ledger.judge(
                    verdict.level, event.time, watched=watched, so_far=so_far
                )
                alerts += raised
                if closed is not None:
                    transaction.put(f"window {ledger.n_windows:09d}", closed)
            else:
                ledger.pass_over(verdict.reason)
                reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
            rows.append(StoredEvent(seq, event.key, user, item, event.time, verdict.reason))
            growing.statistics.add(user, item, event.time)
        alerts += ledger.once_a_day(ledger.sender_alerts(terms, refused=bool(refused)))
        transaction.append(rows)
        transaction.put_user_days(day, user_days)
        state.keep(transaction, alerts)
        state.seq = seq
        n_judged = len(rows) - sum(reasons.values())
        return Ingestion(len(rows), n_again, n_judged, reasons, tuple(alerts), refused)

    @property
    def adaptive_(self) -> AdaptiveLevel:
        """The adapted thresholds and what was observed, as they were last read."""
        return self._state.ledger.adaptive

    @property
    def heaviest_share_(self) -> float | None:
        """The share of this day's judged events from the heaviest 1% of users; None of none."""
        counts = self._state.ledger.today
        return counts.share if counts.day == today() else None

    @property
    def base_(self) -> int:
        """The number of the model that was fitted last: codes are those of it."""
        return self._state.base

    def check_store(self) -> None:
        """Check, without waiting, that the store can keep events; see :meth:`Store.check`."""
        self._state.store.check()

    def observed(self) -> pl.DataFrame:
        """Return nominal and observed confidences, window by window, the current one last.

        Returns
        -------
        polars.DataFrame
            ``window``, ``from``, ``until``, ``confidence``, ``delivered``, ``unsteered`` (what
            would have been, without steering) and ``n``, the judged events.
        """
        with self._state.reading() as transaction:
            windows = [Window(**each) for each in transaction.named("window ")]
            ledger = self._state.ledger
        windows += [ledger.window] if ledger.window.n else []
        return observed_frame(windows, ledger.adaptive.epsilons)

    def status(self) -> Status:
        """Return nominal and observed confidences, events by what became of them, and alarms."""
        state = self._state
        with state.reading() as transaction:
            n_events = transaction.count()
            alerts = [f"{each['at'][:16]}: {each['says']}" for each in transaction.named("alarm ")]
            adaptive = state.ledger.adaptive
            places = range(len(adaptive.epsilons))

            def inside(missed: tuple[float, ...]) -> tuple[float | None, ...]:
                return tuple(1 - each if adaptive.n else None for each in missed)

            return Status(
                state.counted,
                n_events,
                state.growing.statistics.n_added,
                adaptive.n,
                dict(state.ledger.not_judged),
                tuple(round(1 - each, 12) for each in adaptive.epsilons),
                inside(adaptive.observed()),
                tuple(adaptive.bound(place) for place in places),
                tuple(alerts[-5:]),
                adaptive.user_days,
                inside(adaptive.observed_by_user_day()),
                self.heaviest_share_,
            )

    def heaviest_users(self, n: int = 10) -> pl.DataFrame:
        """Return the users with the most judged events of this day, in UTC by the server's clock.

        Parameters
        ----------
        n : int, default=10
            How many of them.

        Returns
        -------
        polars.DataFrame
            ``user_id``, ``judged`` and ``share`` (of all judged events of the day).

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
        ...     done = live.observe([{"user": 7, "item": item} for item in (4, 11)])
        ...     live.heaviest_users()["judged"].sum() == done.judged
        True
        """
        check_whole("n", n)
        with self._state.reading() as transaction:
            rows = transaction.heaviest(today(), n)
            n_events = self._state.ledger.today.n_events  # of another day, if there are no rows
        frame = pl.DataFrame(rows, {"user_id": pl.String, "judged": pl.Int64}, orient="row")
        return frame.with_columns(share=pl.col("judged") / n_events)

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
        state = self._state
        with state.lock:
            with state.writing() as transaction:
                users = state.growing.profiles.users
                users.code(user)  # refuses an unknown one
                person = str(users.check(user))
                n_events = transaction.forget(person)
                n_items, calibrated = state.growing.forget(person)
                state.seq = transaction.last()
            state.store.compact()
            learned = state.growing.learned
        stays = [
            "the model that was fitted last holds their profile until a recount begun after this",
            "the thresholds of the live guarantee, one number each, were moved by their events",
        ]
        if learned:
            stays.append(f"{learned} were learned from them too, and stay until the next recount")
        if calibrated:
            stays.append("probabilities and named lists are not offered until the next recount")
        return Receipt(now_text(), n_events, n_items, calibrated, tuple(stays))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all profiles as they are now to a Parquet file; return the number of rows.

        A fit on it, here or on Spark, gives the same counts.

        Parameters
        ----------
        path : path-like
            The file: ``user_id``, ``item_id``, ``datetime``. It is written aside and renamed, so
            that it is complete or not there.
        """
        with self._state.lock:
            self._state.catch_up()
            frame = self._state.growing.profiles.settled().to_frame()
        target = Path(check_path("path", path))
        check_utf8(target)
        try:
            with file_aside(target) as aside:
                frame.write_parquet(aside)
        except (OSError, PolarsError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{target}: cannot be written ({reason}).") from error
        return len(frame)

    # Refitting.

    def refit(self, *, wait: bool = True) -> None:
        """Refit and recalibrate on all that is known, and answer from that from then on.

        Events and questions go on meanwhile; it is taken over in one step, and whatever interrupts
        it, the old one or the new one serves.

        Parameters
        ----------
        wait : bool, default=True
            Return when it is taken over; else at once, and it goes on in the background.
        """
        self._refit.start(self._refit_now, self._report, wait=wait)

    def _refit_now(self) -> None:
        state = self._state
        with state.reading():
            seq, old, profiles = state.seq, state.growing, state.growing.profiles.settled()
            n_new = state.ledger.new_items
        fresh = old.refitted(profiles, n_new)
        usual = _usual(fresh.model_)
        number = state.folder.numbers()[-1] + 1
        place = state.folder.make_model(number)
        try:
            fresh.save(place, old.model.name)
        except BaseException:
            with suppress(OSError):
                place.rmdir()
            raise
        del old, fresh  # they keep the files of the old base mapped
        with state.lock:
            with state.writing() as transaction:
                state.ledger.refit(state.folder.terms, *usual)
                state.keep(transaction)
                transaction.put("base", {"model": number, "seq": seq, "counted": now_text()})
                transaction.forget_names(until=seq)
            state.reload()
            state.store.compact()

    def _report(self, reason: str) -> None:
        """Raise the alert that a background refit failed."""
        says = (
            f"Refitting failed ({reason}; the log has the details): the counts of "
            f"{self._state.counted[:10]}, with all events since then, are served on, and it is "
            f"tried again in {PAUSE // 60} minutes."
        )
        with suppress(StoreError), self._state.writing() as transaction:
            self._state.keep(transaction, [says])


def _usual(model: FittedModel) -> tuple[list[float], float]:
    """Return the usual levels of watched events, and the usual share of the heaviest users."""
    return usual_levels(model).tolist(), usual_limit(model.profiles())
