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

from surerec._arguments import check_list, check_path, check_whole
from surerec._files import check_utf8, file_aside
from surerec._inputs import as_input_error
from surerec._threads import one_thread
from surerec.conformal import UserDay
from surerec.errors import InputError, StoreError
from surerec.live._events import Event, FutureTimeError, check_supports_live, usual_levels
from surerec.live._ledger import (
    ABOVE_LIMIT,
    EVALUATED,
    Ledger,
    LiveTerms,
    SenderDay,
    Window,
    now_text,
    observed_frame,
    usual_limit,
)
from surerec.live._state import RETRY_SECONDS, SQLITE, LiveFolder, LiveState, RefitJob
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

_GROWN: Final = 0.1  # share of new interactions at which the model is refitted
_LEAST_GROWN: Final = 1000


@dataclass(frozen=True)
class Ingestion:
    """Counts of the events of one call; all but the refused ones are stored."""

    ingested: int
    """New events."""
    duplicates: int
    """Events that were sent before, which change nothing."""
    evaluated: int
    """New events that were compared with the user's set."""
    not_evaluated: dict[str, int]
    """New events that were not, by reason."""
    alerts: tuple[str, ...]
    """Messages of the alerts that these events raised."""
    refused: int
    """Events on new items above the limit, which are not stored; see :class:`LiveTerms`."""


@dataclass(frozen=True)
class Receipt:
    """What was deleted of a user and what is retained; it does not contain the user id."""

    at: str
    n_events: int
    """Number of deleted events."""
    n_items: int
    """Number of items in the profile that was removed from the counts."""
    calibrated: bool
    """Whether the user was a calibration user; their data are removed from the calibration."""
    retained: tuple[str, ...]
    """What is retained, and until when."""


@dataclass(frozen=True)
class Status:
    """Nominal and observed coverage of a live model, its event counts and alerts."""

    fitted_at: str
    """When the model was last fitted."""
    n_events: int
    """Number of stored events."""
    n_since_fit: int
    """Number of events since the last fit."""
    n_evaluated: int
    """Number of evaluated events."""
    not_evaluated: dict[str, int]
    """Number of events that were not evaluated, by reason."""
    nominal: tuple[float, ...]
    """Confidence levels, highest first."""
    observed: tuple[float | None, ...]
    """Share of evaluated events inside the sets at each level; None before the first event."""
    within: tuple[float, ...]
    """Bound on the distance of `observed_by_user_day` from the nominal level, for any stream."""
    alerts: tuple[str, ...]
    """The latest alerts, newest last."""
    n_user_days: int
    """Number of pairs of a user and a day (server clock, UTC) with an evaluated event."""
    observed_by_user_day: tuple[float | None, ...]
    """The same as `observed`, with each user and day counted once: the mean of their shares."""
    heaviest_share: float | None
    """Share of today's evaluated events from the heaviest 1% of users; None without events."""


def today() -> str:
    """Return the current date in UTC."""
    return now_text()[:10]


def _delegate(
    method: Callable[Concatenate[FittedModel, P], R],
) -> Callable[Concatenate[Live, P], R]:
    """Return a method of `Live` that calls the same method of the current fitted model."""

    def call(self: Live, /, *args: P.args, **kwargs: P.kwargs) -> R:
        with self.snapshot() as model:
            return method(model, *args, **kwargs)

    update_wrapper(call, method)
    return call


class Live:
    """A model that ingests events, tracks its own coverage and adapts its thresholds online.

    The thresholds are adapted by adaptive conformal inference. An acknowledged event is stored
    durably and is part of every later answer. Counts equal those of a fit on all events. At the
    stated confidence levels, the long-run share of consumed items outside the sets is ε, with no
    assumption about the stream: see ``docs/live.md``. It has the methods of
    :class:`surerec.recommenders.FittedModel`.

    Parameters
    ----------
    folder : path-like
        Folder that :meth:`create` or ``surerec live init`` created.
    refit : bool, default=True
        Refit in the background when new events reach a tenth of the fitted interactions.
    hold : bool, default=True
        Lock an SQLite store against other processes. The workers of one server pass False because
        the server holds the lock for them.

    Examples
    --------
    >>> import surerec as sr
    >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
    >>> model = sr.PopulationConformal("CM12").fit(films)
    >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
    ...     live.observe({"user": 7, "item": 11, "time": "2024-05-01T12:00:00Z"}).ingested
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
        self._refit = RefitJob(place.path / "refit.lock")

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
            A new folder. It will contain user histories: protect it accordingly.
        model : Recommender
            A fitted model with user-level calibration and one of the paper's measures or the
            learned measure. It is copied. Learned trees are kept until the next refit.
        store : str, default="sqlite"
            ``"sqlite"`` stores events in the folder. The address of a PostgreSQL database stores
            them there; several servers can share it.
        terms : LiveTerms, optional
            Confidence levels of the live guarantee, adaptation step and alert settings.
        refit : bool, default=True
            The same as for the class.
        """
        fitted = check_supports_live(model)
        terms = (terms or LiveTerms()).for_items(fitted.statistics_.n_items)
        made = LiveFolder.create(Path(check_path("folder", folder)), terms, store)
        try:
            fitted.save(made.create_model(1), fitted.name_)
            ledger = Ledger.start(made.terms)
            ledger.refit(made.terms, *_usual(fitted.model_))
            events = made.open_store()
            try:
                with events.writing() as transaction:
                    if transaction.get("base") is not None:
                        raise InputError(
                            f"{events.name} already stores the events of another live model. "
                            "Open that model, or pass another database as store=."
                        )
                    transaction.put("base", {"model": 1, "seq": 0, "fitted_at": now_text()})
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
        """Close the store after waiting for a running refit."""
        self._refit.close()
        self._state.store.close()

    # Queries.

    @contextmanager
    def snapshot(self) -> Iterator[FittedModel]:
        """Yield the current fitted model; no event is ingested inside the block."""
        state = self._state
        with state.lock:
            state.catch_up()
            yield state.growing.adapted(state.ledger.adaptive, state.fitted_at)

    recommend = _delegate(FittedModel.recommend)
    recommend_many = _delegate(FittedModel.recommend_many)
    recommend_groups = _delegate(FittedModel.recommend_groups)
    p_values = _delegate(FittedModel.p_values)
    explain = _delegate(FittedModel.explain)
    explain_group = _delegate(FittedModel.explain_group)

    # Events.

    def observe(self, events: Any, *, names: Sequence[str] | None = None) -> Ingestion:
        """Ingest one or more events in order; all of them are stored durably on return.

        Parameters
        ----------
        events : mapping or iterable of mappings
            Fields ``user`` and ``item``, optionally ``time`` and ``id``; see :class:`Event`. An
            event with a known id changes nothing. Without an id, events with equal user, item and
            time count as the same event.
        names : sequence of str, optional
            Name of each event in error messages, such as the line that it was read from.

        Raises
        ------
        InputError
            If an event is invalid. No event is ingested.
        FutureTimeError
            If a time is more than 5 minutes ahead of this clock. No event is ingested, and an
            alert is raised once a day.
        StoreError
            If the events cannot be stored. No event is ingested; send them again.
        """
        state = self._state
        with state.lock:
            try:
                checked = self._check_events(events, names)
            except FutureTimeError as error:
                self._alert_future_time(error)
                raise
            with state.writing() as transaction, one_thread():
                found = self._ingest(transaction, checked)
            counts = state.growing.statistics
        grown = max(_LEAST_GROWN, _GROWN * counts.base.interactions.n_rows)
        if self._refits and counts.n_added >= grown and self._refit.may_start:
            self.refit(wait=False)
        return found

    def _alert_future_time(self, error: FutureTimeError) -> None:
        """Raise the alert for a refused future time, at most once a day."""
        with suppress(StoreError), self._state.writing() as transaction:
            ledger = self._ledger_on(transaction, today())
            alerts = ledger.once_a_day({"future time": f"Refused: {error}"})
            self._state.keep(transaction, alerts)
            error.alerted = bool(alerts)

    def _check_events(self, events: Any, names: Sequence[str] | None) -> list[Event]:
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

    def _ledger_on(self, transaction: Transaction, day: str) -> Ledger:
        """Return the ledger for a day; delete user counts from before yesterday."""
        ledger = self._state.ledger
        if ledger.today.day != day:
            yesterday = date.fromisoformat(day) - timedelta(days=1)
            transaction.drop_user_days(before=yesterday.isoformat())
            ledger.today = SenderDay(day)
        return ledger

    def _ingest(self, transaction: Transaction, events: list[Event]) -> Ingestion:
        state, growing, terms = self._state, self._state.growing, self._state.folder.terms
        day = today()  # by the server's clock, as senders choose the times of events
        ledger = self._ledger_on(transaction, day)
        known = transaction.known_keys([event.key for event in events])
        user_days = transaction.user_days(day, list({event.user for event in events}))
        seq, rows, alerts, reasons = transaction.last(), [], list[str](), dict[str, int]()
        duplicates = refused = 0
        for event in events:
            user, item = event.user, event.item
            if event.key in known:
                duplicates += 1
                continue
            if growing.is_new(item) and not ledger.admit(terms):
                ledger.skip(ABOVE_LIMIT)
                refused += 1
                continue
            known.add(event.key)
            seq += 1
            outcome = growing.evaluate(user, item, event.time)
            if outcome.reason == EVALUATED:
                so_far = user_days.get(user, UserDay())
                user_days[user] = so_far.after(ledger.adaptive.missed(outcome.level))
                watched = outcome.watched and not so_far.n
                closed, raised = ledger.record(
                    outcome.level, event.time, watched=watched, so_far=so_far
                )
                alerts += raised
                if closed is not None:
                    transaction.put(f"window {ledger.n_windows:09d}", closed)
            else:
                ledger.skip(outcome.reason)
                reasons[outcome.reason] = reasons.get(outcome.reason, 0) + 1
            rows.append(StoredEvent(seq, event.key, user, item, event.time, outcome.reason))
            growing.statistics.add(user, item, event.time)
        alerts += ledger.once_a_day(ledger.sender_alerts(terms, refused=bool(refused)))
        transaction.append(rows)
        transaction.put_user_days(day, user_days)
        state.keep(transaction, alerts)
        state.seq = seq
        evaluated = len(rows) - sum(reasons.values())
        return Ingestion(len(rows), duplicates, evaluated, reasons, tuple(alerts), refused)

    @property
    def adaptive_(self) -> AdaptiveLevel:
        """The adapted levels and the observed coverage, as last read."""
        return self._state.ledger.adaptive

    @property
    def heaviest_share_(self) -> float | None:
        """Share of today's evaluated events from the heaviest 1% of users; None without events."""
        counts = self._state.ledger.today
        return counts.share if counts.day == today() else None

    @property
    def base_(self) -> int:
        """Number of the last fitted model, which defines the codes of users and items."""
        return self._state.base

    def check_store(self) -> None:
        """Check, without blocking, that the store can keep events; see :meth:`Store.check`."""
        self._state.store.check()

    def observed(self) -> pl.DataFrame:
        """Return nominal and observed coverage by window, the current window last.

        Returns
        -------
        polars.DataFrame
            ``window``, ``from``, ``until``, ``confidence``, ``observed``, ``unadapted`` (the
            coverage without adapted thresholds) and ``n``, the number of evaluated events.
        """
        with self._state.reading() as transaction:
            windows = [Window(**each) for each in transaction.named("window ")]
            ledger = self._state.ledger
        windows += [ledger.window] if ledger.window.n else []
        return observed_frame(windows, ledger.adaptive.epsilons)

    def status(self) -> Status:
        """Return nominal and observed coverage, event counts by outcome, and the latest alerts."""
        state = self._state
        with state.reading() as transaction:
            n_events = transaction.count()
            alerts = [f"{a['at'][:16]}: {a['message']}" for a in transaction.named("alert ")]
            adaptive = state.ledger.adaptive
            places = range(len(adaptive.epsilons))

            def inside(missed: tuple[float, ...]) -> tuple[float | None, ...]:
                return tuple(1 - each if adaptive.n else None for each in missed)

            return Status(
                state.fitted_at,
                n_events,
                state.growing.statistics.n_added,
                adaptive.n,
                dict(state.ledger.not_evaluated),
                tuple(round(1 - each, 12) for each in adaptive.epsilons),
                inside(adaptive.observed()),
                tuple(adaptive.bound(place) for place in places),
                tuple(alerts[-5:]),
                adaptive.user_days,
                inside(adaptive.observed_by_user_day()),
                self.heaviest_share_,
            )

    def heaviest_users(self, n: int = 10) -> pl.DataFrame:
        """Return the users with the most evaluated events today (UTC, server clock).

        Parameters
        ----------
        n : int, default=10
            Number of users.

        Returns
        -------
        polars.DataFrame
            ``user_id``, ``evaluated`` and ``share`` (of all evaluated events of the day).

        Examples
        --------
        >>> import surerec as sr
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, random_state=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
        ...     done = live.observe([{"user": 7, "item": item} for item in (4, 11)])
        ...     live.heaviest_users()["evaluated"].sum() == done.evaluated
        True
        """
        check_whole("n", n)
        with self._state.reading() as transaction:
            rows = transaction.heaviest(today(), n)
            n_events = self._state.ledger.today.n_events  # of another day, if there are no rows
        frame = pl.DataFrame(rows, {"user_id": pl.String, "evaluated": pl.Int64}, orient="row")
        return frame.with_columns(share=pl.col("evaluated") / n_events)

    def forget(self, user: Any) -> Receipt:
        """Delete a user from events and counts at once, and from files at the next refit.

        Parameters
        ----------
        user : id
            The user to delete.

        Returns
        -------
        Receipt
            What was deleted, and what is retained; it does not contain the user id.
        """
        state = self._state
        with state.lock:
            with state.writing() as transaction:
                users = state.growing.profiles.users
                users.code(user)  # raises for an unknown id
                user_id = str(users.check(user))
                n_events = transaction.forget(user_id)
                n_items, calibrated = state.growing.forget(user_id)
                state.seq = transaction.last()
            state.store.compact()
            learned = state.growing.learned
        retained = [
            "the last fitted model contains the profile until the next refit",
            "the adapted thresholds, one number each, include the effect of the user's events",
        ]
        if learned:
            retained.append(f"{learned} were trained on the user's data, until the next refit")
        if calibrated:
            retained.append("probabilities and item lists are not available until the next refit")
        return Receipt(now_text(), n_events, n_items, calibrated, tuple(retained))

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write all current profiles to a Parquet file; return the number of rows.

        A fit on this file, here or on Spark, has the same counts.

        Parameters
        ----------
        path : path-like
            The file, with columns ``user_id``, ``item_id`` and ``datetime``. It is written under
            a temporary name and renamed, so that it is complete or absent.
        """
        with self._state.lock:
            self._state.catch_up()
            frame = self._state.growing.profiles.settled().to_frame()
        target = Path(check_path("path", path))
        check_utf8(target)
        advice = "Pass another path, or free disk space."
        with as_input_error(target, "cannot be written", advice), file_aside(target) as aside:
            frame.write_parquet(aside)
        return len(frame)

    # Refitting.

    def refit(self, *, wait: bool = True) -> None:
        """Refit and recalibrate on all interactions, then replace the model.

        Events and requests are processed meanwhile. The model is replaced atomically, so an
        interruption leaves either the old model or the new one.

        Parameters
        ----------
        wait : bool, default=True
            Return after the replacement; otherwise refit in the background.
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
        place = state.folder.create_model(number)
        try:
            fresh.save(place, old.model.name)
        except BaseException:
            with suppress(OSError):
                place.rmdir()
            raise
        del old, fresh  # they keep the files of the old model mapped
        with state.lock:
            with state.writing() as transaction:
                state.ledger.refit(state.folder.terms, *usual)
                state.keep(transaction)
                transaction.put("base", {"model": number, "seq": seq, "fitted_at": now_text()})
                transaction.forget_names(until=seq)
            state.reload()
            state.store.compact()

    def _report(self, reason: str) -> None:
        """Raise the alert that a background refit failed."""
        message = (
            f"Refit failed ({reason}; see the log for details). The model of "
            f"{self._state.fitted_at[:10]}, with all events since then, is still served. "
            f"The next attempt is in {RETRY_SECONDS // 60} minutes."
        )
        with suppress(StoreError), self._state.writing() as transaction:
            self._state.keep(transaction, [message])


def _usual(model: FittedModel) -> tuple[list[float], float]:
    """Return reference levels of watched events, and the alert limit for the heaviest users."""
    return usual_levels(model).tolist(), usual_limit(model.profiles())
