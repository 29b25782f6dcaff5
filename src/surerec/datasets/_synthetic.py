"""Synthetic interactions of any size, with the effects that recommenders live on."""

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
    """Check whether a text asks for synthetic interactions.

    Examples
    --------
    >>> is_described("synthetic:random_state=4"), is_described("synthetic.csv")
    (True, False)
    """
    return text == _BEGIN or text.startswith(f"{_BEGIN}:")


def synthetic_of(text: str) -> Interactions:
    """Generate interactions by a text such as "synthetic:n_users=300,drift=0.5,random_state=4".

    Parameters
    ----------
    text : str
        The settings of :func:`synthetic`; those that are left out keep their defaults.

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
                f"{shown(text)}: there is no setting {shown(name)}; there are {', '.join(known)}, "
                f"as in {_EXAMPLE}."
            )
        if name in settings:
            raise InputError(f"{shown(text)}: the setting {name} is there twice.")
        settings[name] = _number(value, text, name)
    return synthetic(**settings)  # type: ignore[arg-type]  # which checks them


def _number(value: str, text: str, name: str) -> float:
    plain = value.replace("_", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    raise InputError(f"{shown(text)}: {name} is {shown(value)}; it must be a number.")


_DAY: Final = DAY // 1_000_000  # seconds
_LARGEST_CODE: Final = 2**31 - 2
_MOST_DAYS: Final = 1_000_000  # dates stay before the year 10000
_N_GENRES: Final = 20

# Independent random streams, one for each thing that is drawn.
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
    """Generate interactions that have the effects of real ones.

    Items have Zipf popularity, users profiles of log-normal length and a few favourite genres,
    from which half of their items come.
    Some items are sequels: who takes an original tends to take its sequel later, and seldom the
    other way round. But for sequels and `drift`, the order of a profile is random: with neither,
    a user's past and future are exchangeable. No user takes an item twice. Everything follows from
    the arguments and the seed, whatever the number of threads.

    Parameters
    ----------
    n_users, n_items, n_rows : int
        Number of users, items on offer, and interactions. Items that nobody takes do not appear.
    popularity : float, default=1.0
        Zipf exponent: the item of rank r is drawn with a chance proportional to
        ``r ** -popularity``. 0 makes all items alike; at most 10.
    length_spread : float, default=1.0
        Standard deviation of the logarithm of the profile lengths, before they are cut to between
        1 and `n_items`. 0 makes all profiles alike, to within 1; at most 10.
    sequels : float, default=0.3
        Share of the items that are sequels of others, at most 0.5.
    drift : float, default=0.0
        Share of the draws that follow the fashion of the current quarter: other items are popular,
        and users have other favourite genres. 0 makes the past like the future.
    ties : float, default=0.0
        Share of the events that happen in the same second as the user's event before. With 0,
        each user's times are strictly increasing.
    longest : int, optional
        Length of one enormous profile, the first user's; no other is longer.
    days : int, default=730
        Length of the calendar, which begins with 2020. Users start anywhere in it.
    random_state : int, default=0
        Of everything that is random.

    Returns
    -------
    Interactions
        With users 1 … `n_users`, items from 1 … `n_items`, times in whole seconds, and titles:
        "Story 17", and "Story 17, part 2" for its sequel.

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
    # The longest profile needs a second for each event.
    days = check_whole("days", days, -(-int(lengths.max()) // _DAY), _MOST_DAYS)
    offsets = np.concatenate(([0], np.cumsum(lengths)))
    items = np.empty(n_rows, np.uint32)
    times = np.empty(n_rows, np.int64)
    catalogue = _catalogue(n_items, popularity, sequels, random_state)
    habits = float(drift), float(ties), days * _DAY

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
            *block,
            np.uint64(random_state),
            _PROFILES,
            catalogue,
            habits,
            work,
            offsets,
            items,
            times,
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
        origin=f"generated with seed {random_state}",
    )


def _uniforms(size: int, random_state: int, stream: int) -> NDArray[np.float64]:
    out = np.empty(size)
    kernels.uniforms(np.uint64(random_state), stream, out)
    return out


def _lengths(
    n_users: int, n_items: int, n_rows: int, spread: float, longest: int | None, random_state: int
) -> NDArray[np.int64]:
    """Return log-normal lengths between 1 and `n_items` that sum to `n_rows`."""
    from scipy.special import ndtri  # noqa: PLC0415  # a third of the time of importing surerec

    log_weights = spread * ndtri(_uniforms(n_users, random_state, _LENGTHS))
    if longest is None:
        return _share_out(n_rows, log_weights, n_items)
    lengths = np.full(n_users, longest, np.int64)
    # The first user has it, so that its thread starts early.
    lengths[1:] = _share_out(n_rows - longest, log_weights[1:], longest)
    return lengths


def _share_out(total: int, log_weights: NDArray[np.float64], most: int) -> NDArray[np.int64]:
    """Share `total` out in proportion to weights, as whole numbers between 1 and `most`.

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
        room = np.flatnonzero(whole < most)
        largest = np.argsort(whole[room] - exact[room], kind="stable")
        whole[room[largest[:left]]] += 1
    return whole


def _catalogue(
    n_items: int, popularity: float, sequels: float, random_state: int
) -> kernels.Catalogue:
    """Build the items: their popularity, sequels, genres and labels."""
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
    chance, alias = np.empty(member.size), np.empty(member.size, np.uint32)
    kernels.alias_tables(weight[member], start, mass, chance, alias)
    return kernels.Catalogue(
        weight=weight,
        kind=kind,
        label=np.argsort(_uniforms(n_items, random_state, _LABELS), kind="stable").astype(
            np.uint32
        ),
        start=start,
        member=member,
        chance=chance,
        alias=alias,
        mass=mass,
        genre=genre + 1,
    )


def _titles(catalogue: kernels.Catalogue) -> pl.DataFrame:
    """Name each item after itself, and each sequel after its original."""
    ids = catalogue.label.astype(np.int64) + 1
    sequel = catalogue.kind == kernels.SEQUEL
    named_after = np.where(sequel, np.roll(ids, 1), ids)
    frame = pl.DataFrame({Columns.Item: ids, "story": named_after, "sequel": sequel})
    part = pl.when("sequel").then(pl.lit(", part 2")).otherwise(pl.lit(""))
    title = pl.format("Story {}{}", "story", part).alias(Columns.Title)
    return frame.sort(Columns.Item).select(Columns.Item, title)
