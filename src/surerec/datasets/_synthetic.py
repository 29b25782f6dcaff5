"""Synthetic interactions of any size, with popularity, taste, order and drift."""

from __future__ import annotations

import inspect
import math
from typing import TYPE_CHECKING, Final

import numpy as np
import polars as pl

from surerec._arguments import check_number, check_random_state, check_whole
from surerec._columns import Columns
from surerec._threads import equal_blocks, run_blocks
from surerec._words import DAY, shown
from surerec.datasets import _kernels as kernels
from surerec.errors import InputError
from surerec.interactions import Interactions

if TYPE_CHECKING:
    from numpy.typing import NDArray


_BEGIN: Final = "synthetic"
_EXAMPLE: Final = "synthetic:n_users=3000,n_items=1500,n_rows=120000,drift=0.5"


def is_described(text: str) -> bool:
    """Return whether a text describes synthetic interactions.

    Examples
    --------
    >>> is_described("synthetic:random_state=4"), is_described("synthetic.csv")
    (True, False)
    """
    return text == _BEGIN or text.startswith(f"{_BEGIN}:")


def synthetic_of(text: str) -> Interactions:
    """Generate interactions from a text such as "synthetic:n_users=300,drift=0.5".

    Parameters
    ----------
    text : str
        Parameters of :func:`synthetic`; others keep their defaults.

    Examples
    --------
    >>> synthetic_of("synthetic:n_users=50,n_items=20,n_rows=400,drift=0.5")
    Interactions('synthetic', 50 users, 20 items, 400 rows)
    """
    known = inspect.signature(synthetic).parameters
    settings: dict[str, float] = {}
    for part in filter(None, text.partition(":")[2].split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in known:
            raise InputError(
                f"{shown(text)}: unknown parameter {shown(name)}. Use {', '.join(known)}, as in "
                f"{_EXAMPLE}."
            )
        if name in settings:
            raise InputError(f"{shown(text)}: the parameter {name} appears twice. Remove one.")
        settings[name] = _number(value, text, name)
    return synthetic(**settings)  # type: ignore[arg-type]  # which checks them


def _number(value: str, text: str, name: str) -> float:
    plain = value.replace("_", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    raise InputError(f"{shown(text)}: {name} is {shown(value)}. Pass a number.")


_DAY: Final = DAY // 1_000_000  # seconds
_LARGEST_CODE: Final = 2**31 - 2
_MOST_DAYS: Final = 1_000_000  # dates stay before the year 10000
_N_GENRES: Final = 20

# Independent random streams.
_LENGTHS, _LABELS, _SEQUELS, _GENRES, _PROFILES = range(5)


def synthetic(
    n_users: int = 1000,
    n_items: int = 500,
    n_rows: int = 50_000,
    *,
    popularity: float = 1.0,
    length_spread: float = 1.0,
    sequels: float = 0.3,
    drift: float = 0.0,
    ties: float = 0.0,
    longest: int | None = None,
    days: int = 730,
    random_state: int = 0,
) -> Interactions:
    """Generate interactions with the effects of real ones.

    Items have Zipf popularity. Histories have log-normal lengths, and half of a user's items come
    from a few favourite genres. Some items are sequels: a user who consumes an original tends to
    consume its sequel later, and seldom the other way round. The order of a history is otherwise
    random: without sequels and `drift`, a user's past and future are exchangeable. No user
    consumes an item twice. The arguments determine the result, for any number of threads.

    Parameters
    ----------
    n_users, n_items, n_rows : int
        Numbers of users, items and interactions. Items without an interaction do not appear.
    popularity : float, default=1.0
        Zipf exponent: the item of rank r has a probability proportional to
        ``r ** -popularity``. With 0, all items are equally popular; at most 10.
    length_spread : float, default=1.0
        Standard deviation of the log length of histories, before clipping to 1 … `n_items`. With
        0, lengths differ by at most 1; at most 10.
    sequels : float, default=0.3
        Share of the items that are sequels, at most 0.5.
    drift : float, default=0.0
        Share of the draws that follow the current quarter, in which other items are popular and
        users have other favourite genres.
    ties : float, default=0.0
        Share of the interactions at the same second as the user's previous one. With 0, the times
        of each user increase strictly.
    longest : int, optional
        Length of the history of the first user; no other is longer.
    days : int, default=730
        Length of the period, which begins with 2020. Users start at random times.
    random_state : int, default=0
        Seed of all random choices.

    Returns
    -------
    Interactions
        Users 1 … `n_users`, items of 1 … `n_items`, times in whole seconds, and titles such as
        "Story 17" and, for its sequel, "Story 17, part 2".

    Raises
    ------
    InputError
        If an argument is out of range.

    Examples
    --------
    >>> ratings = synthetic(n_users=100, n_items=50, n_rows=1000, random_state=7)
    >>> ratings.n_users, ratings.n_rows
    (100, 1000)
    """
    n_users = check_whole("n_users", n_users, highest=_LARGEST_CODE)
    n_items = check_whole("n_items", n_items, highest=_LARGEST_CODE)
    n_rows = check_whole("n_rows", n_rows, n_users, n_users * n_items)
    if longest is not None:
        highest = min(n_items, n_rows - n_users + 1)
        longest = check_whole("longest", longest, -(-n_rows // n_users), highest)
    for name, value, most in (
        ("popularity", popularity, 10.0),
        ("length_spread", length_spread, 10.0),
        ("sequels", sequels, 0.5),
        ("drift", drift, 1.0),
        ("ties", ties, 1.0),
    ):
        check_number(name, value, 0, most, f"from 0 to {most:g}", ends=(True, True))
    check_random_state(random_state)
    lengths = _lengths(n_users, n_items, n_rows, length_spread, longest, random_state)
    # The longest history needs a second for each interaction.
    days = check_whole("days", days, -(-int(lengths.max()) // _DAY), _MOST_DAYS)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = np.empty(n_rows, np.uint32)
    times = np.empty(n_rows, np.int64)
    catalogue = _catalogue(n_items, popularity, sequels, random_state)
    habits, seed = (float(drift), float(ties), days * _DAY), np.uint64(random_state)

    def draw(block: tuple[int, int]) -> None:
        work = kernels.Workspace(
            state=np.zeros(16, np.uint64),
            consumed=np.zeros(n_items, np.int32),
            pending=np.zeros(n_items // 2 + 1, np.int64),
            favourites=np.zeros((2, kernels.FAVOURITES), np.int64),
            weights=np.empty(n_items),
            keys=np.empty(n_items),
        )
        kernels.fill_profiles(
            *block, seed, _PROFILES, catalogue, habits, work, offsets, items, times
        )

    list(run_blocks(draw, equal_blocks(lengths)))
    return Interactions.from_profiles(
        offsets,
        items,
        times,
        user_ids=np.arange(1, n_users + 1),
        item_ids=np.arange(1, n_items + 1),
        titles=_titles(catalogue),
        name="synthetic",
        origin=f"generated with random_state={random_state}",
    )


def _uniforms(size: int, random_state: int, stream: int) -> NDArray[np.float64]:
    out = np.empty(size)
    kernels.uniforms(np.uint64(random_state), stream, out)
    return out


def _lengths(
    n_users: int, n_items: int, n_rows: int, spread: float, longest: int | None, random_state: int
) -> NDArray[np.int64]:
    """Return log-normal lengths between 1 and `n_items` that sum to `n_rows`."""
    from scipy.special import ndtri  # noqa: PLC0415  # slow to import

    log_weights = spread * ndtri(_uniforms(n_users, random_state, _LENGTHS))
    if longest is None:
        return _share_out(n_rows, log_weights, n_items)
    lengths = np.full(n_users, longest, np.int64)
    # The first user is the longest, so that its thread starts early.
    lengths[1:] = _share_out(n_rows - longest, log_weights[1:], longest)
    return lengths


def _share_out(total: int, log_weights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Divide `total` in proportion to weights, into whole numbers between 1 and `most`.

    Examples
    --------
    >>> _share_out(10, np.log([1.0, 2.0, 4.0]), most=5)
    array([2, 3, 5])
    """
    if not log_weights.size:
        return np.empty(0, np.int64)

    def shares(log_scale: float) -> NDArray[np.float64]:
        return np.exp(np.clip(log_scale + log_weights, 0.0, math.log(most)))

    low, high = -log_weights.max(), math.log(most) - log_weights.min()
    for _ in range(64):
        middle = (low + high) / 2
        low, high = (middle, high) if shares(middle).sum() <= total else (low, middle)
    exact = shares(low)
    whole = np.clip(exact.astype(np.int64), 1, most)
    while (left := total - int(whole.sum())) > 0:
        below = np.flatnonzero(whole < most)
        largest = np.argsort(whole[below] - exact[below], kind="stable")
        whole[below[largest[:left]]] += 1
    return whole


def _catalogue(
    n_items: int, popularity: float, sequels: float, random_state: int
) -> kernels.Catalogue:
    """Build the items with popularity, sequels, genres and labels."""
    ranks = np.arange(n_items)
    weight = np.exp(-popularity * np.log1p(ranks))

    pairs = np.argsort(_uniforms(n_items // 2, random_state, _SEQUELS), kind="stable")
    pairs = pairs[: round(sequels * n_items)]
    kind = np.full(n_items, kernels.SINGLE, np.int8)
    kind[2 * pairs] = kernels.ORIGINAL
    kind[2 * pairs + 1] = kernels.SEQUEL

    genre = (_uniforms(n_items // 2 + 1, random_state, _GENRES) * _N_GENRES).astype(np.int64)
    used, genre = np.unique(genre[ranks // 2], return_inverse=True)
    sizes = np.concatenate(([n_items], np.bincount(genre)))
    start = np.concatenate(([0], np.cumsum(sizes)))
    member = np.concatenate((ranks, np.argsort(genre, kind="stable"))).astype(np.uint32)
    mass = np.concatenate(([weight.sum()], np.bincount(genre, weight, used.size)))
    keep, alias = np.empty(member.size), np.empty(member.size, np.uint32)
    kernels.alias_tables(weight[member], start, mass, keep, alias)
    label = np.argsort(_uniforms(n_items, random_state, _LABELS), kind="stable")
    return kernels.Catalogue(
        weight=weight,
        kind=kind,
        label=label.astype(np.uint32),
        start=start,
        member=member,
        keep=keep,
        alias=alias,
        mass=mass,
        genre=genre + 1,
    )


def _titles(catalogue: kernels.Catalogue) -> pl.DataFrame:
    """Return the titles; a sequel is named after its original."""
    ids = catalogue.label.astype(np.int64) + 1
    sequel = catalogue.kind == kernels.SEQUEL
    named_after = np.where(sequel, np.roll(ids, 1), ids)
    frame = pl.DataFrame({Columns.Item: ids, "story": named_after, "sequel": sequel})
    part = pl.when("sequel").then(pl.lit(", part 2")).otherwise(pl.lit(""))
    title = pl.format("Story {}{}", "story", part).alias(Columns.Title)
    return frame.sort(Columns.Item).select(Columns.Item, title)
