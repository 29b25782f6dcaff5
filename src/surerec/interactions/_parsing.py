"""Numbers and dates in plain text, from bytes to arrays; anything odd is left to other readers.

Every line must end with a newline. A place of −1 says that there is something odd, such as an id
with a leading zero, which is text and no number, a cell with nothing in it, or a quoted one.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Final

import numpy as np
from numba import njit

if TYPE_CHECKING:
    from numpy.typing import NDArray

    Wholes = tuple[NDArray[np.int64], NDArray[np.int64], NDArray[np.int64]]

USER, ITEM, NUMBER, DATE, RATING, SKIPPED = range(6)
"""What a field is; times are numbers or dates, and both stand behind users and items."""

_NEWLINE, _RETURN, _BLANK = np.uint8(10), np.uint8(13), np.uint8(32)
_MINUS, _POINT, _COLON, _T = (np.uint8(ord(sign)) for sign in "-.:T")
_COMMA = np.array([ord(",")], dtype=np.uint8)
_ZERO, _ONE, _NINE, _TEN = np.uint64(ord("0")), np.uint64(1), np.uint64(9), np.uint64(10)
_MOST_DIGITS: Final = 18  # that an int64 surely holds
_EXACT_DIGITS: Final = 15  # of a whole number that is exact as a float64
_MOST_ID: Final = 2**31 - 1  # of an int32
_DAY: Final = 86_400_000_000
_FIRST_YEAR: Final = 1900
_END_YEAR: Final = 2100
# Days from 1970 to the first of each month, and to the one after the last.
_MONTH_STARTS = (
    np.arange(f"{_FIRST_YEAR}-01", f"{_END_YEAR}-02", dtype="datetime64[M]")
    .astype("datetime64[D]")
    .astype(np.int64)
)
_TENS = np.array([10.0**power for power in range(_EXACT_DIGITS + 1)])


@njit(nogil=True, cache=True)
def count_lines(text: NDArray[np.uint8]) -> int:
    """Give the number of newlines."""
    n_lines = 0
    for character in text:
        n_lines += character == _NEWLINE
    return n_lines


@njit(nogil=True, cache=True)
def parse_rows(
    text: NDArray[np.uint8],
    separator: NDArray[np.uint8],
    quote: np.uint8,
    fields: NDArray[np.int64],
    wholes: Wholes,
    ratings: NDArray[np.float64],
) -> int:
    """Read lines of fields into columns; give their number, −1 if something is odd.

    Parameters
    ----------
    text : array of uint8
        Whole lines.
    separator : array of uint8
        One character or two.
    quote : uint8
        A character that no field has that is not wanted.
    fields : array of int
        What each field of a line is.
    wholes : three arrays of int64
        Users, items and times, with a place for each line. Dates are written as microseconds since
        1970.
    ratings : array of float64
        With a place for each line.
    """
    place, row = 0, 0
    while place < len(text):
        for field in range(len(fields)):
            kind = fields[field]
            if field > 0:
                place = _separated(text, place, separator)
            if kind == SKIPPED:
                place = _skip(text, place, separator, quote)
            elif kind == RATING:
                ratings[row], place = _decimal(text, place)
            elif kind == DATE:
                wholes[NUMBER][row], place = _instant(text, place)
            else:
                wholes[kind][row], place = _whole(text, place)
        place = _line_end(text, place)
        if place < 0:
            return -1
        row += 1
    return row


@njit(nogil=True, cache=True)
def parse_films(
    text: NDArray[np.uint8],
    threshold: float,
    users: NDArray[np.int32],
    items: NDArray[np.int32],
    times: NDArray[np.int64],
) -> tuple[int, int, int, int]:
    """Read lines ``user,rating,date`` below lines such as ``7:`` that name their film.

    Parameters
    ----------
    text : array of uint8
        Whole lines.
    threshold : float
        Rows whose rating is not above it are left out.
    users, items, times : arrays
        With a place for each line.

    Returns
    -------
    n_rows : int
        The number of rows, −1 if something is odd.
    n_before : int
        How many of them stand before the first film, and so have no item yet.
    film : int
        The last film, −1 if there is none.
    n_below : int
        The number of rows left out.
    """
    place, row, n_before, n_below, film = 0, 0, 0, 0, -1
    while place < len(text):
        if text[place] != _NEWLINE and text[place] != _RETURN:
            number, place = _whole(text, place)
            if place < 0 or number > _MOST_ID:
                return -1, 0, -1, 0
            if text[place] == _COLON:
                film = number
                place += 1
            else:
                rating, place = _decimal(text, _separated(text, place, _COMMA))
                time, place = _instant(text, _separated(text, place, _COMMA))
                users[row], items[row], times[row] = number, film, time
                above = rating > threshold
                row += above
                n_below += not above
                n_before += above and film < 0
        place = _line_end(text, place)
        if place < 0:
            return -1, 0, -1, 0
    return row, n_before, film, n_below


@njit(nogil=True, cache=True)
def _separated(text: NDArray[np.uint8], place: int, separator: NDArray[np.uint8]) -> int:
    """Give the start of the next field."""
    if place < 0 or text[place] != separator[0]:
        return -1
    if len(separator) == 1:
        return place + 1
    return place + 2 if text[place + 1] == separator[1] else -1


@njit(nogil=True, cache=True)
def _line_end(text: NDArray[np.uint8], place: int) -> int:
    """Give the start of the next line."""
    if place < 0:
        return -1
    if text[place] == _RETURN:
        place += 1
    return place + 1 if text[place] == _NEWLINE else -1


@njit(nogil=True, cache=True)
def _skip(
    text: NDArray[np.uint8], place: int, separator: NDArray[np.uint8], quote: np.uint8
) -> int:
    """Go to the end of a field, whatever it is."""
    if place < 0:
        return -1
    at, last = np.uint64(place), np.uint64(len(separator) - 1)
    while text[at] != _NEWLINE:
        if text[at] == quote:
            return -1
        if text[at] == separator[0] and text[at + last] == separator[last]:
            break
        at += _ONE
    return np.int64(at)  # type: ignore[return-value]  # an integer of numba's


@njit(nogil=True, cache=True)
def _digits(text: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Read digits, however many there are."""
    at, number = np.uint64(place), np.uint64(0)  # unsigned: no place is looked at from the end
    digit = np.uint64(text[at]) - _ZERO
    while digit <= _NINE:
        number = number * _TEN + digit
        at += _ONE
        digit = np.uint64(text[at]) - _ZERO
    return np.int64(number), np.int64(at)  # type: ignore[return-value]


@njit(nogil=True, cache=True)
def _whole(text: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Read a whole number as Python would write it, not below 0."""
    if place < 0:
        return 0, -1
    number, end = _digits(text, place)
    n_digits = end - place
    if n_digits == 0 or n_digits > _MOST_DIGITS or (n_digits > 1 and text[place] == _ZERO):
        return 0, -1
    return number, end


@njit(nogil=True, cache=True)
def _decimal(text: NDArray[np.uint8], place: int) -> tuple[float, int]:
    """Read a number that a float64 holds as near as any; division by a power of ten is exact."""
    if place < 0:
        return 0.0, -1
    negative = text[place] == _MINUS
    begin = place + 1 if negative else place
    number, end = _digits(text, begin)
    n_digits = end - begin
    if n_digits == 0 or n_digits > _EXACT_DIGITS:
        return 0.0, -1
    value = np.float64(number)
    if text[end] == _POINT:
        behind, after = _digits(text, end + 1)
        n_behind = after - end - 1
        if n_behind == 0 or n_digits + n_behind > _EXACT_DIGITS:
            return 0.0, -1
        power = _TENS[n_behind]
        value, end = (value * power + behind) / power, after
    return -value if negative else value, end


@njit(nogil=True, cache=True)
def _figures(text: NDArray[np.uint8], place: int, many: int) -> int:
    """Read so many digits, −1 if one of them is none."""
    number = np.uint64(0)
    for at in range(np.uint64(place), np.uint64(place + many)):
        digit = np.uint64(text[at]) - _ZERO
        if digit > _NINE:
            return -1
        number = number * _TEN + digit
    return np.int64(number)  # type: ignore[return-value]


@njit(nogil=True, cache=True)
def _instant(text: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Read ``2005-09-06``, perhaps with ``12:30:00`` behind it, as microseconds since 1970."""
    year = _figures(text, place, 4) if place >= 0 else -1
    # Each is looked at only if what is before it was there, and so has not left the text.
    if year < _FIRST_YEAR or year >= _END_YEAR or text[place + 4] != _MINUS:
        return 0, -1
    month = _figures(text, place + 5, 2)
    if month < 1 or month > 12 or text[place + 7] != _MINUS:  # noqa: PLR2004
        return 0, -1
    day = _figures(text, place + 8, 2)
    at = np.uint64(12 * (year - _FIRST_YEAR) + month - 1)
    days = _MONTH_STARTS[at] + day - 1
    if day < 1 or days >= _MONTH_STARTS[at + _ONE]:
        return 0, -1
    seconds, place = _clock(text, place + 10)
    return days * _DAY + 1_000_000 * seconds, place


@njit(nogil=True, cache=True)
def _clock(text: NDArray[np.uint8], place: int) -> tuple[int, int]:
    """Read `` 12:30:00`` as seconds, and nothing as midnight."""
    if text[place] != _BLANK and text[place] != _T:
        return 0, place
    seconds = 0
    for part in range(3):
        if part > 0 and text[place] != _COLON:
            return 0, -1
        number = _figures(text, place + 1, 2)
        if number < 0 or number >= (24 if part == 0 else 60):
            return 0, -1
        seconds = 60 * seconds + number
        place += 3
    return seconds, place
