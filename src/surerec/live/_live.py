"""A model that takes events in, and keeps its promise as the world moves."""

from __future__ import annotations

import shutil
from contextlib import contextmanager, suppress
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final, Self

import numpy as np
from polars.exceptions import PolarsError

from surerec._arguments import check_list, check_path
from surerec._checks import check_whole
from surerec._columns import Columns
from surerec._files import check_utf8, file_aside
from surerec._threads import one_thread
from surerec.conformal import UserDay, significance_of
from surerec.errors import InputError, StoreError
from surerec.live._events import Event, FutureTimeError
from surerec.live._folder import SQLITE, LiveFolder
from surerec.live._ledger import JUDGED, Ledger, Terms, Window
from surerec.live._new_items import ABOVE_LIMIT, NewItems
from surerec.live._promised import (
    ages,
    kept_live,
    nothing_stated,
    stays_of_the_forgotten,
    too_little_known,
)
from surerec.live._recounting import Recounting
from surerec.live._served import check_can_live
from surerec.live._store import StoredEvent
from surerec.live._told import (
    Observed,
    Receipt,
    Status,
    day_before,
    delivered_frame,
    heaviest_frame,
    now_text,
    today,
)
from surerec.live._usual import usual_levels, usual_limit

if TYPE_CHECKING:
    import os
    from collections.abc import Iterable, Iterator, Sequence

    import polars as pl

    from surerec.conformal import Steering
    from surerec.live._store import Transaction
    from surerec.measures import Query
    from surerec.recommenders import (
        PopulationConformal,
        RecommendationSet,
        Recommender,
        RequestOptions,
    )

_NEAR_NOTHING: Final = 1e-12


class Live(Recounting):
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
    hold : bool, default=True
        Keep other processes out of an SQLite store. The workers of one server do not, as the server
        does it for them.

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

    def __init__(
        self, folder: str | os.PathLike[str], *, recount: bool = True, hold: bool = True
    ) -> None:
        place = LiveFolder.open(Path(check_path("folder", folder)))
        self._recounts = recount
        store = place.open_store(hold=hold)
        try:
            super().__init__(place, store)
        except BaseException:
            store.close()
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
            With one of the paper's measures, or the learned one, whose trees stay as they are until
            the next recount; it is copied.
        store : str, default="sqlite"
            Where events go: a file in the folder, or the address of a PostgreSQL database, which
            several servers may share.
        terms : Terms, optional
            At which confidences a promise is kept, and when the alarm is raised.
        recount : bool, default=True
            As of the class.
        """
        fitted = check_can_live(model)
        terms = (terms or Terms()).for_items(fitted.statistics_.n_items)
        made = LiveFolder.make(Path(check_path("folder", folder)), terms, store)
        try:
            fitted.save(made.make_model(1), fitted.name_)
            ledger = Ledger.start(made.terms, usual_levels(fitted).tolist())
            ledger = ledger.with_heaviest(limit=usual_limit(fitted))
            events = made.open_store()
            try:
                with events.writing() as transaction:
                    if transaction.get("base") is not None:
                        raise InputError(
                            f"{events.name} has the events of a live model already: open that, or "
                            "name another database."
                        )
                    transaction.put("base", {"model": 1, "seq": 0, "counted": now_text()})
                    transaction.put("ledger", ledger.to_state())
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
        self._end_recount()
        self._store.close()

    def observe(self, events: Any, *, names: Sequence[str] | None = None) -> Observed:
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
        with self._lock:
            try:
                given = self._checked(events, names)
            except FutureTimeError as error:
                self._alert_of(error)
                raise
            with self._writing() as transaction, one_thread():
                found = self._take(transaction, given)
        self._recount_if_due()
        return found

    def _alert_of(self, error: FutureTimeError) -> None:
        """Raise the alert that an event was refused for its time, unless this day had it."""
        with suppress(StoreError), self._writing() as transaction:
            if transaction.get("future time") != today():
                ledger = Ledger.from_state(transaction.get("ledger"))
                ledger = self._with_alerts(transaction, ledger, [error.alert])
                transaction.put("ledger", ledger.to_state())
                transaction.put("future time", today())
                error.alerted = True

    def _checked(self, events: Any, names: Sequence[str] | None) -> list[tuple[Event, str, str]]:
        if isinstance(events, (Event, dict)):
            events = [events]
        given = check_list("events", events, "events")
        now, checked = datetime.now(UTC), []
        for number, each in enumerate(given):
            where = "The event" if len(given) == 1 else f"Event {number + 1:,}"
            where = where if names is None else names[number]
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
        # The server's day: a sender chooses the times of events.
        day, n_again, limits = today(), 0, self._folder.terms.limits
        new_items = NewItems.from_state(transaction.get("new items")).on(day)
        if ledger.heaviest.day != day:
            transaction.drop_user_days(before=day_before(day))
            ledger = replace(ledger, heaviest=ledger.heaviest.on(day))
        user_days = transaction.user_days(day, list({user for _, user, _ in given}))
        for event, user, item in given:
            if event.key in known:
                n_again += 1
                continue
            if self._served.is_new(item):
                if not new_items.has_room(*limits):
                    ledger = ledger.passed_over(ABOVE_LIMIT)
                    continue
                new_items = new_items.admitted()
            known.add(event.key)
            seq += 1
            verdict = self._served.judge(user, item, event.time)
            if verdict.reason == JUDGED:
                so_far = user_days.get(user, UserDay())
                user_days[user] = so_far.after(ledger.steering.missed(verdict.level))
                ledger, closed, alarms = ledger.judge(
                    verdict.level,
                    event.time,
                    verdict.groups,
                    watched=verdict.watched and not so_far.n,
                    so_far=so_far,
                )
                if closed is not None:
                    transaction.put(f"window {ledger.n_windows:09d}", closed.to_state())
                self._write_alarms(transaction, ledger.n_alarms - len(alarms), alarms)
                raised += alarms
            else:
                ledger = ledger.passed_over(verdict.reason)
                reasons[verdict.reason] = reasons.get(verdict.reason, 0) + 1
            rows.append(StoredEvent(seq, event.key, user, item, event.time, verdict.reason))
            self._served.add(user, item, event.time)
        refused = len(given) - len(rows) - n_again
        alerts = list[str]()
        if refused and (alert := new_items.alert(*limits)):
            new_items = replace(new_items, alerted=day)
            alerts.append(alert)
        if alert := ledger.heaviest.alert():
            ledger = ledger.with_heaviest(alerted=day)
            alerts.append(alert)
        ledger = self._with_alerts(transaction, ledger, alerts)
        transaction.append(rows)
        transaction.put_user_days(day, user_days)
        transaction.put("ledger", ledger.to_state())
        transaction.put("new items", new_items.to_state())
        self._seq, self._ledger = seq, ledger
        n_judged = len(rows) - sum(reasons.values())
        return Observed(len(rows), n_again, n_judged, reasons, (*raised, *alerts), refused)

    def recommend(
        self,
        user: Any = None,
        *,
        history: Any = None,
        times: Any = None,
        at: Any = None,
        query: Query | None = None,
        confidence: float | None = None,
        significance: float | None = None,
        k: int | None = None,
        exclude: Iterable[Any] = (),
    ) -> RecommendationSet:
        """Recommend a set of items, with the promise that is kept live.

        Parameters
        ----------
        user, history, times, at, query, confidence, significance, k, exclude
            As in :meth:`surerec.PopulationConformal.recommend`. Other confidences than the stated
            ones get no live promise.
        """
        epsilon = significance_of(confidence, significance)
        with self.asking() as model:
            steering = self._ledger.steering
            if query is None:
                query = model.query(user, history=history, times=times, at=at)
            place = steering.place_of(epsilon)
            cut = self.cut(epsilon)
            asked = epsilon if cut is None else cut
            short = k is not None and confidence is None and significance is None
            options: RequestOptions = {"k": k, "exclude": exclude}
            if not short:
                options["significance"] = asked
            found = model.recommend(query=query, **options)
        if place is None:
            says = nothing_stated(steering)
        elif len(query.history) < model.min_known:
            says = too_little_known(len(query.history), model.min_known)
        else:
            says = kept_live(steering, place, self._ages())
            says = f"{says} {model.model_.assumption(query)}".rstrip()
            if short or len(found) < found.full_size:
                says = f"None for this list, from which items were left out. The whole set: {says}"
        entries = np.asarray(found.columns[Columns.EntryConfidence])
        columns = {**found.columns, Columns.EntryConfidence: 1 - steering.nominal(1 - entries)}
        level_asked = None if short else epsilon
        return replace(found, columns=columns, significance=level_asked, guarantee=says)

    def promise(self, confidence: float) -> str:
        """Say what is promised, and was delivered, at a confidence, to people who are judged."""
        with self.asking():
            steering = self._ledger.steering
            place = steering.place_of(significance_of(confidence, None))
            if place is None:
                return nothing_stated(steering)
            return kept_live(steering, place, self._ages())

    @contextmanager
    def asking(self) -> Iterator[PopulationConformal]:
        """Give the recommender as it is now; no event is taken in while it is asked."""
        with self._lock:
            self._catch_up()
            yield self._served.recommender

    def cut(self, significance: float) -> float | None:
        """Give the ε that calibration is asked for, so that sets are steered to another.

        None where no promise is kept live.
        """
        steering = self._ledger.steering
        place = steering.place_of(significance)
        if place is None:
            return None
        return min(max(steering.cuts_nested[place], _NEAR_NOTHING), 1 - _NEAR_NOTHING)

    @property
    def counted_(self) -> str:
        """When it was counted and calibrated last, as ISO text."""
        return self._counted

    @property
    def steering_(self) -> Steering:
        """The cuts of the sets, and what they delivered, as they were last looked at."""
        return self._ledger.steering

    @property
    def heaviest_share_(self) -> float | None:
        """The share of this day's judged events from the heaviest 1% of users; None of none."""
        return self._ledger.heaviest.on(today()).share

    @property
    def base_(self) -> int:
        """The number of the model that was counted last: codes are those of it."""
        return self._base

    def _ages(self) -> str:
        return ages(self._served.recommender.recipe().stays, self._counted)

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
        return delivered_frame(windows, epsilons)

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
                steering.user_days,
                tuple(1 - each for each in steering.observed_by_user_day()),
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
        >>> films = sr.datasets.synthetic(n_users=300, n_items=60, n_rows=6000, seed=1)
        >>> model = sr.PopulationConformal("CM12").fit(films)
        >>> with Live.create(getfixture("tmp_path") / "shop", model) as live:
        ...     done = live.observe([{"user": 7, "item": item} for item in (4, 11)])
        ...     live.heaviest_users()["judged"].sum() == done.judged
        True
        """
        check_whole("n", n)
        with self._lock:
            self._catch_up()
            with self._store.reading() as transaction:
                rows = transaction.heaviest(today(), n)
            return heaviest_frame(rows, self._ledger.heaviest.on(today()).n_events)

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
        learned = self._served.recommender.recipe().stays
        stays = stays_of_the_forgotten(learned, calibrated=calibrated)
        return Receipt(now_text(), n_events, n_items, calibrated, stays)

    def export(self, path: str | os.PathLike[str]) -> int:
        """Write everybody's profiles as they are now to a Parquet file; give the rows.

        A fit on it, here or on Spark, gives the same counts.

        Parameters
        ----------
        path : path-like
            The file: ``user_id``, ``item_id``, ``datetime``. It is written aside and renamed, so
            that it is complete or not there.
        """
        with self._lock:
            self._catch_up()
            frame = self._served.profiles.settled().to_frame()
        target = Path(check_path("path", path))
        check_utf8(target)
        try:
            with file_aside(target) as aside:
                frame.write_parquet(aside)
        except (OSError, PolarsError) as error:
            reason = getattr(error, "strerror", None) or str(error)
            raise InputError(f"{target}: cannot be written ({reason}).") from error
        return len(frame)
