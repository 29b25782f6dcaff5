"""Mapping between external ids and dense integer codes."""

from __future__ import annotations

from bisect import bisect_left
from functools import cached_property, partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np
import polars as pl
from numba import njit

from surerec._arguments import check_choice, check_list, check_whole
from surerec._words import near, shown
from surerec.errors import InputError, UnknownIdError

if TYPE_CHECKING:
    from collections.abc import Iterable

    from numpy.typing import NDArray


_UNSEEN = np.uint32(2**32 - 1)
_BEYOND = 2**63  # limit of int64
_EXACT = 2.0**53  # floats are exact for integers up to this
_MISSING = frozenset(("NAType", "NaTType"))  # missing values of pandas
_NAMED = 5  # unknown ids in a message
_FEW = 16  # texts that a Python loop finds faster than polars, which starts threads


def encode(values: pl.Series) -> tuple[pl.Series, NDArray[np.uint32]]:
    """Encode values: assign codes to the distinct values in order of first appearance.

    Returns
    -------
    ids : polars.Series
        Distinct values, integers as int64; the value with code ``c`` at position ``c``.
    codes : array of uint32
        Code of each value.
    """
    if values.dtype in (pl.Int32, pl.Int64) and len(values):
        lowest, highest = int(values.min()), int(values.max())  # type: ignore[arg-type]
        # A lookup table of the range is faster than hashing if it is not much larger than the data.
        if highest - lowest < 4 * len(values) + 1_000:
            first_seen = np.full(highest - lowest + 1, _UNSEEN)
            codes = np.empty(len(values), dtype=np.uint32)
            n_ids, done = 0, 0
            for chunk in values.get_chunks():  # concatenating would copy them
                some = codes[done : done + len(chunk)]
                n_ids = number_in_order(chunk.to_numpy(), lowest, n_ids, first_seen, some)
                done += len(chunk)
            known = np.flatnonzero(first_seen != _UNSEEN)
            ids = np.empty(n_ids, dtype=np.int64)
            ids[first_seen[known]] = known + lowest
            return pl.Series(ids), codes
    if values.dtype == pl.Int32:
        values = values.cast(pl.Int64)
    distinct = values.unique(maintain_order=True)
    table = pl.DataFrame({"id": distinct, "code": np.arange(len(distinct), dtype=np.uint32)})
    coded = pl.DataFrame({"id": values}).join(table, on="id", how="left", maintain_order="left")
    return distinct, coded["code"].to_numpy()


@njit(nogil=True, cache=True)
def number_in_order(
    values: NDArray[np.int64],
    lowest: int,
    n_before: int,
    first_seen: NDArray[np.uint32],
    codes: NDArray[np.uint32],
) -> int:
    """Write the code of each value in order of first appearance; return the number of codes.

    `first_seen` has an entry for each value from `lowest` on: its code, or the largest uint32 if
    the value is not among the `n_before` values seen earlier.
    """
    n_seen = np.uint32(n_before)
    for row in range(len(values)):
        place = values[row] - lowest
        if first_seen[place] == np.uint32(0xFFFFFFFF):
            first_seen[place] = n_seen
            n_seen += np.uint32(1)
        codes[row] = first_seen[place]
    return int(n_seen)


class Selected(NamedTuple):
    """The known ids of a list, and the unknown ones that were skipped.

    Examples
    --------
    >>> IdMap(pl.Series([196, 22, 244]), noun="user").select([22, 7, 244]).message
    '1 of 3 users is unknown and was skipped: 7.'
    """

    codes: NDArray[np.int64]
    """Codes of the known ids, in the given order."""
    skipped: tuple[Any, ...]
    """Unknown ids, in the given order."""
    noun: str
    """What an id identifies, such as "user"."""

    @property
    def message(self) -> str:
        """The number of skipped ids and the first five; "" if there are none."""
        if not self.skipped:
            return ""
        were = "is unknown and was" if len(self.skipped) == 1 else "are unknown and were"
        return f"{_unknown_of(self, len(self.codes))} {were} skipped: {_first(self.skipped)}."


def _unknown_of(found: Selected, n_known: int) -> str:
    return f"{len(found.skipped):,} of {len(found.skipped) + n_known:,} {found.noun}s"


def _first(ids: tuple[Any, ...]) -> str:
    return ", ".join(shown(value) for value in ids[:_NAMED]) + (", …" if len(ids) > _NAMED else "")


class IdMap:
    """Ids (integers or strings) and their codes ``0 … n − 1``.

    Parameters
    ----------
    ids : polars.Series
        Distinct ids; the id with code ``c`` at position ``c``.
    noun : str, default="id"
        What an id identifies, for error messages.

    Examples
    --------
    >>> users = IdMap(pl.Series([196, 22, 244]), noun="user")
    >>> users.code(244), users[2], len(users)
    (2, 244, 3)
    >>> users.codes([22, 7])
    array([ 1, -1])
    """

    def __init__(self, ids: pl.Series, *, noun: str = "id") -> None:
        self.ids = ids
        self.noun = noun
        self._length = len(ids)  # cached: polars is slow, and a request needs it ten times
        self._order: NDArray[np.uint32] | None = None
        self._sorted: pl.Series | NDArray[Any] | None = None

    def __len__(self) -> int:
        return self._length

    def __getitem__(self, code: int) -> Any:
        return self.ids[int(code)]

    def __contains__(self, value: object) -> bool:
        return bool(self.codes([value])[0] >= 0)

    def __repr__(self) -> str:
        return f"IdMap({len(self):,} {self.noun}s, {self.ids.dtype})"

    def code(self, value: Any) -> int:
        """Return the code of an id.

        Raises
        ------
        UnknownIdError
            If the id is unknown; the message suggests similar ids.
        """
        if type(value) is int and -_BEYOND <= value < _BEYOND and self._is_sorted_numbers():
            # Fast path of single requests: a list of one id takes ten times as long.
            place = int(self._sorted.searchsorted(value))  # type: ignore[union-attr]
            if place < self._length and self._sorted[place] == value:  # type: ignore[index]
                return int(self._order[place])  # type: ignore[index]
        return int(self.require([value])[0])

    def _is_sorted_numbers(self) -> bool:
        return isinstance(self._sorted, np.ndarray) and self._sorted.dtype == np.int64

    def require(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code of each id; raise UnknownIdError for the first unknown id."""
        ids = check_list(f"{self.noun}s", values, "ids")
        codes = self.codes(ids)
        if (codes < 0).any():
            value = ids[int(np.argmax(codes < 0))]
            raise UnknownIdError(self.noun, value, partial(self.near, value))
        return codes

    def select(self, values: Iterable[Any], unknown: str = "check") -> Selected:
        """Return the codes of the known ids of a list; unknown ids are skipped.

        Parameters
        ----------
        values : iterable of ids
            The list.
        unknown : {"check", "skip"}, default="check"
            With "check", it is an error if more than half of the ids are unknown: they probably
            have another type. "skip" accepts any share, but at least one id must be known.

        Raises
        ------
        InputError
            If too many of the ids are unknown.

        Examples
        --------
        >>> users = IdMap(pl.Series([196, 22, 244]), noun="user")
        >>> users.select(["22", 7, 244]).codes, users.select(["22", 7, 244]).skipped
        (array([1, 2]), (7,))
        """
        check_choice("unknown", unknown, ("check", "skip"))
        given = check_list(f"{self.noun}s", values, f"{self.noun} ids")
        codes = self.codes(given)
        skipped = tuple(v for v, code in zip(given, codes.tolist(), strict=True) if code < 0)
        found = Selected(codes[codes >= 0], skipped, self.noun)
        if len(given) == 1 and skipped:
            raise UnknownIdError(self.noun, given[0], partial(self.near, given[0]))
        too_many = len(skipped) > len(found.codes) and unknown == "check"
        if skipped and (too_many or not len(found.codes)):
            kind = "text" if self.ids.dtype == pl.String else "integers"
            some = tuple(self.suggested(2))
            such = f" such as {_first(some)}" if some else ""
            hint = ' To skip unknown ids, pass unknown="skip".'
            raise InputError(
                f"{_unknown_of(found, len(found.codes))} are unknown: {_first(skipped)}. Check "
                f"their type and spelling: ids of the data are {kind}{such}."
                f"{hint if len(found.codes) else ''}"
            )
        return found

    def codes(self, values: Iterable[Any]) -> NDArray[np.int64]:
        """Return the code of each id, −1 where it is unknown.

        An integer and its text are the same id, because everything is text on a command line.
        """
        given = check_list(f"{self.noun}s", values, "ids")
        stored = [self.as_stored(value) for value in given]
        known = np.array([value is not None for value in stored], dtype=bool)
        if not len(self) or not known.any():
            return np.full(len(stored), -1)
        if self._sorted is None:
            # Sorted once instead of a dictionary of millions of Python objects. NumPy searches
            # integers, because its calls have less overhead than those of polars.
            self._order = self.ids.arg_sort().to_numpy()
            ordered = self.ids.gather(self._order)
            self._sorted = ordered if ordered.dtype == pl.String else ordered.to_numpy()
        assert self._order is not None  # noqa: S101  # set before _sorted
        filled = [self.ids[0] if value is None else value for value in stored]
        if isinstance(self._sorted, pl.Series) and len(filled) <= _FEW:
            found = [bisect_left(self._sorted, text) for text in filled]
            place = np.minimum(found, len(self) - 1)
            pairs = zip(place.tolist(), filled, strict=True)
            same = np.array([self._sorted[number] == text for number, text in pairs])
        elif isinstance(self._sorted, pl.Series):
            texts = pl.Series(filled, dtype=pl.String)
            place = np.minimum(self._sorted.search_sorted(texts).to_numpy(), len(self) - 1)
            same = (self._sorted.gather(place) == texts).to_numpy()
        else:
            numbers = np.array(filled, dtype=self._sorted.dtype)
            place = np.minimum(np.searchsorted(self._sorted, numbers), len(self) - 1)
            same = self._sorted[place] == numbers
        return np.where(same & known, self._order[place].astype(np.int64), -1)

    def near(self, value: Any, n: int = 3) -> list[Any]:
        """Return up to `n` ids that are similar to `value`, for a message."""
        check_whole("n", n)
        ids = self.suggested(100_000)
        sample = ids.cast(pl.String).to_list()
        close = near(_as_text(value), sample, n=n)
        return [ids[sample.index(text)] for text in close]

    def suggested(self, n: int) -> pl.Series:
        """Return the first ids, for messages."""
        return self.ids.head(n)

    def as_stored(self, value: Any) -> Any:
        """Return an id in the stored type, None if it cannot be one of these ids.

        A float with an integer value is that integer; a missing value is not an id.
        """
        if isinstance(value, (float, np.floating)):
            if not -_EXACT <= value <= _EXACT:
                value = None  # not exact, or not a number
            elif value == int(value) and not self._has_float_texts:
                value = int(value)
        if value is None or type(value).__name__ in _MISSING:
            return None
        if self.ids.dtype == pl.String:
            text = _as_text(value)
            return text if text.isascii() or _is_whole(text) else None
        if isinstance(value, str):
            value = value.strip().removesuffix(".0")  # pandas writes integers like this beside gaps
        try:
            number = _BEYOND * 2 if isinstance(value, (np.ndarray, pl.Series)) else int(value)
        except (TypeError, ValueError, OverflowError):
            return None
        if not -(2**63) <= number < 2**64:
            return None
        lowest, highest = (0, 2**64) if self.ids.dtype == pl.UInt64 else (-(2**63), 2**63)
        return number if str(number) == str(value).strip() and lowest <= number < highest else None

    @cached_property
    def _has_float_texts(self) -> bool:
        """Whether ids are texts such as "12346.0", which pandas writes."""
        return self.ids.dtype == pl.String and bool(self.ids.str.ends_with(".0").any())


def _as_text(value: Any) -> str:
    try:
        return str(value)
    except Exception:  # noqa: BLE001  # an integer of thousands of digits, or a user's class
        return type(value).__name__


def _is_whole(text: str) -> bool:
    """Return whether a text has no lone surrogates, which cannot be encoded."""
    try:
        text.encode()
    except UnicodeEncodeError:
        return False
    return True
