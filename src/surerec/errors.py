"""The errors surerec raises on purpose; each is one sentence for the person who can mend it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from surerec._words import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NAMED = 5  # of the items of an unknown history


class SurerecError(Exception):
    """Base of all errors that surerec raises on purpose.

    The command line prints the sentence and exits with code 2; a traceback would add nothing.
    """

    def __str__(self) -> str:
        """Return the sentence, on one line whatever stands in it, such as a file's name."""
        return " ".join(super().__str__().splitlines())


class InputError(SurerecError, ValueError):
    """What the caller gave cannot be used: a file, a column, a value, a name."""


class NotFittedError(SurerecError, ValueError, AttributeError):
    """A recommender was asked before it was fitted; of the same bases as scikit-learn's."""


class FetchError(SurerecError, OSError):
    """A data set could not be brought: no network, a wrong checksum, a full disk."""


class StoreError(SurerecError, OSError):
    """The database of events is unavailable, full or damaged.

    Parameters
    ----------
    message : str
        What is wrong and how to fix it.
    reason : str, default="unavailable"
        The kind of failure, for a log: it holds no path and no address.

    Examples
    --------
    >>> StoreError("/srv/shop/events.sqlite: the disk is full.", reason="disk full").reason
    'disk full'
    """

    def __init__(self, message: str, *, reason: str = "unavailable") -> None:
        super().__init__(message)
        self.reason = reason


class StaleModelWarning(UserWarning):
    """A served model is older than the window that it was calibrated for."""


class HistoriesWarning(UserWarning):
    """Some of many people given by their histories are left out, or promised nothing."""


class LeftOutWarning(UserWarning):
    """Some of what was given cannot be used, and the rest is."""


class AssumedIdsWarning(UserWarning):
    """Ids were taken for a model's column numbers, and its scores speak against it."""


class _Near:
    """Near ids, looked for when the first asks: that takes a while, and they are other people's."""

    _find_near: Callable[[], Iterable[Any]]

    @cached_property
    def near(self) -> tuple[Any, ...]:
        """Known ids that look like the one that was given."""
        return tuple(self._find_near())

    def _hint(self, words: str) -> str:
        near = ", ".join(shown(value) for value in self.near)
        return f"; {words} {near}" if near else ""


class UnknownIdError(_Near, InputError):
    """An id that is not in the data; the sentence names near ones.

    Parameters
    ----------
    noun : str
        What the id names: "user" or "item".
    value : object
        The id.
    near : callable, optional
        Gives known ids that look like it; called when the sentence or `near` is asked for.

    Examples
    --------
    >>> error = UnknownIdError("user", "ann", lambda: ["anna", "hanna"])
    >>> str(error)
    "There is no user 'ann'; near ones are 'anna', 'hanna'."
    >>> error.noun, error.value, error.near
    ('user', 'ann', ('anna', 'hanna'))
    """

    def __init__(self, noun: str, value: Any, near: Callable[[], Iterable[Any]] = tuple) -> None:
        super().__init__(noun, value)
        self.noun = noun
        self.value = value
        self._find_near = near

    def __str__(self) -> str:
        return f"There is no {self.noun} {shown(self.value)}{self._hint('near ones are')}."


class UnknownHistoryError(_Near, InputError):
    """A history none of whose items is in the data; the sentence names ids near the first.

    Parameters
    ----------
    items : iterable
        The ids of the history.
    near : callable, optional
        Gives known ids that look like the first; called when the sentence or `near` is asked for.

    Examples
    --------
    >>> str(UnknownHistoryError(["jaws"], lambda: ["Jaws"]))
    "Nobody in the data took any item of the history ('jaws'); near the first are 'Jaws'."
    """

    def __init__(self, items: Iterable[Any], near: Callable[[], Iterable[Any]] = tuple) -> None:
        self.items = tuple(items)
        super().__init__(self.items)
        self._find_near = near

    def __str__(self) -> str:
        named = ", ".join(shown(item) for item in self.items[:_NAMED])
        hint = self._hint("near the first are")
        return f"Nobody in the data took any item of the history ({named}){hint}."


class AlreadyConsumedError(InputError):
    """An item that the person has taken already: it is no candidate.

    Parameters
    ----------
    item : object
        Its id.
    consequence : str
        What therefore cannot be had.

    Examples
    --------
    >>> str(AlreadyConsumedError(302, "it has no p-value"))
    'Item 302 is in the known profile: it has no p-value.'
    """

    def __init__(self, item: Any, consequence: str) -> None:
        super().__init__(f"Item {shown(item)} is in the known profile: {consequence}.")
        self.item = item


class UnknownMembersError(InputError):
    """Members of a group who are not in the data, or of whom nothing is known."""


class RepeatedMemberError(InputError):
    """A user who is in a group more than once."""


class TooFewUsersError(InputError):
    """There are fewer people than learning, or calibrating, needs."""


class NoUsersError(InputError):
    """A user was asked for, and the statistics are given counts, without users."""


class NoConfidenceError(InputError):
    """A confidence was asked of a recommender that only ranks."""


class NotSupportedError(InputError):
    """Something was asked of a recommender that does not offer it; it names nobody."""


class UnknownRecommenderError(InputError):
    """A recommender by a name that a model folder, or surerec, does not know."""
