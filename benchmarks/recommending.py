"""Time per recommendation on MovieLens 1M: p-values of every item, for 1,000 users one by one.

The peer in the same run is scipy: the same user's profile times the co-occurrence matrix, sorted.
"""

from __future__ import annotations

from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import scipy.sparse as sp
from rich.console import Console
from rich.table import Table

import surerec as sr

if TYPE_CHECKING:
    from collections.abc import Callable

    from numpy.typing import NDArray

_N_USERS = 1_000


def per_user(task: Callable[[int], Any], users: NDArray[np.int64]) -> NDArray[np.float64]:
    """Give the time of each call, in milliseconds, after a few calls to warm up."""
    for user in users[:20]:
        task(int(user))
    times = []
    for user in users:
        begin = perf_counter()
        task(int(user))
        times.append(perf_counter() - begin)
    return 1000 * np.array(times)


def main() -> None:
    data = sr.load_dataset("ml-1m")
    statistics = sr.count_precedence(data)
    users = np.random.default_rng(0).choice(data.n_users, _N_USERS, replace=False)
    ids = data.users.ids
    table = Table(
        "", "median", "99th percentile", "of scipy's median",
        title=f"One recommendation at confidence 0.9, {data.n_items:,} items, one thread",
    )  # fmt: skip

    ones = np.ones(data.n_rows, dtype=np.int32)
    taken = sp.csr_array((ones, data.items_taken.astype(np.int32), data.offsets))
    together = (taken.T @ taken).tocsr()
    peer = per_user(lambda user: np.argsort(-(taken[[user]] @ together).toarray()[0]), users)
    table.add_row(
        "scipy: profile × co-occurrence, sorted",
        f"{np.median(peer):.2f} ms",
        f"{np.percentile(peer, 99):.2f} ms",
        "",
    )
    for name, model in (
        ("ICRS4 (mean count)", sr.InductiveConformal("CM4")),
        ("ICRS3 (median count)", sr.InductiveConformal("CM3")),
        ("ICRS12 (mean ratio)", sr.InductiveConformal("CM12")),
        ("CRS-max", sr.TransductiveConformal("max")),
    ):
        model.fit(statistics)
        times = per_user(lambda user, m=model: m.recommend(ids[user], confidence=0.9), users)  # type: ignore[misc]
        table.add_row(
            name,
            f"{np.median(times):.2f} ms",
            f"{np.percentile(times, 99):.2f} ms",
            f"{np.median(times) / np.median(peer):.2f}",
        )
    console = Console()
    (console if console.is_terminal else Console(width=120)).print(table)
    lengths = np.diff(data.offsets)[users]
    print(f"Profiles: median {np.median(lengths):.0f} items, 99th percentile "
          f"{np.percentile(lengths, 99):.0f}; half of each calibrates.")  # fmt: skip


if __name__ == "__main__":
    main()
