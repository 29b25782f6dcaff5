"""Errors and warnings of surerec. A message says what is wrong and how to fix it."""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from surerec._words import shown

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable

_NAMED = 5  # items of an unknown history in a message


class SurerecError(Exception):
    """Base class of all errors that surerec raises on purpose.

    The command line prints the message without a traceback and exits with code 2.
    """

    def __str__(self) -> str:
        """Return the message on one line, even if a value in it has line breaks."""
        return " ".join(super().__str__().splitlines())


class InputError(SurerecError, ValueError):
    """An input is invalid: a file, a column, a value or a name."""


class NotFittedError(SurerecError, ValueError, AttributeError):
    """A recommender was used before it was fitted; same bases as scikit-learn's class."""


class FetchError(SurerecError, OSError):
    """A data set could not be downloaded: no network, a wrong checksum or a full disk."""


class StoreError(SurerecError, OSError):
    """The event store is unavailable, full or damaged.

    Parameters
    ----------
    message : str
        What is wrong and how to fix it.
    reason : str, default="unavailable"
        Kind of failure for logs, without any path or address.

    Examples
    --------
    >>> StoreError("/srv/shop/events.sqlite: the disk is full.", reason="disk full").reason
    'disk full'
    """

    def __init__(self, message: str, *, reason: str = "unavailable") -> None:
        super().__init__(message)
        self.reason = reason


class StaleModelWarning(UserWarning):
    """A served model is older than the period it was calibrated for."""


class HistoriesWarning(UserWarning):
    """Some histories of a batch were left out, or their sets carry no guarantee."""


class LeftOutWarning(UserWarning):
    """Some of the input was skipped; the rest is used."""


class AssumedIdsWarning(UserWarning):
    """Ids were assumed to be a model's column numbers, but its scores suggest otherwise."""


class LargeSetsWarning(UserWarning):
    """The sets of a wrapped model are larger than those of popularity, at equal guarantee."""


class _Near:
    """Similar ids, searched on first use: the search is slow, and ids may be personal data."""

    _find_near: Callable[[], Iterable[Any]]

    @cached_property
    def near(self) -> tuple[Any, ...]:
        """Known ids that are similar to the given one."""
        return tuple(self._find_near())

    def _hint(self) -> str:
        near = " or ".join(shown(value) for value in self.near)
        return f" Did you mean {near}?" if near else ""


class UnknownIdError(_Near, InputError):
    """An id is not in the data; the message suggests similar ids.

    Parameters
    ----------
    noun : str
        What the id identifies: "user" or "item".
    value : object
        The id.
    near : callable, optional
        Returns similar known ids; called on first access to the message or `near`.

    Examples
    --------
    >>> error = UnknownIdError("user", "ann", lambda: ["anna", "hanna"])
    >>> str(error)
    "There is no user 'ann'. Did you mean 'anna' or 'hanna'?"
    >>> error.noun, error.value, error.near
    ('user', 'ann', ('anna', 'hanna'))
    """

    def __init__(self, noun: str, value: Any, near: Callable[[], Iterable[Any]] = tuple) -> None:
        super().__init__(noun, value)
        self.noun = noun
        self.value = value
        self._find_near = near

    def __str__(self) -> str:
        return f"There is no {self.noun} {shown(self.value)}.{self._hint()}"


class UnknownHistoryError(_Near, InputError):
    """No item of a history is in the data; the message suggests ids similar to the first.

    Parameters
    ----------
    items : iterable
        Item ids of the history.
    near : callable, optional
        Returns known ids similar to the first; called on first access to the message or `near`.

    Examples
    --------
    >>> str(UnknownHistoryError(["jaws"], lambda: ["Jaws"]))
    "No item of the history ('jaws') is in the data. Did you mean 'Jaws'?"
    """

    def __init__(self, items: Iterable[Any], near: Callable[[], Iterable[Any]] = tuple) -> None:
        self.items = tuple(items)
        super().__init__(self.items)
        self._find_near = near

    def __str__(self) -> str:
        named = ", ".join(shown(item) for item in self.items[:_NAMED])
        return f"No item of the history ({named}) is in the data.{self._hint()}"


class AlreadyConsumedError(InputError):
    """An item is already in the user's history, so it is not a candidate.

    Parameters
    ----------
    item : object
        Id of the item.
    consequence : str
        What is therefore not available.

    Examples
    --------
    >>> str(AlreadyConsumedError(302, "it has no p-value"))
    'Item 302 is already in the history: it has no p-value. Pass another item.'
    """

    def __init__(self, item: Any, consequence: str) -> None:
        super().__init__(
            f"Item {shown(item)} is already in the history: {consequence}. Pass another item."
        )
        self.item = item


class UnknownMembersError(InputError):
    """Members of a group are not in the data, or have no history."""


class RepeatedMemberError(InputError):
    """A user is in a group more than once."""


class TooFewUsersError(InputError):
    """There are too few users to train or calibrate."""


class NoUsersError(InputError):
    """A user was requested, but the statistics were built from counts without users."""


class NoConfidenceError(InputError):
    """A confidence level was requested from a recommender that only ranks."""


class NotSupportedError(InputError):
    """The recommender does not support a request option; the message names no user."""


class UnknownRecommenderError(InputError):
    """A recommender name is unknown to the model folder or to surerec."""
