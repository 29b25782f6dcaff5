"""Data, sizes and jobs of `make bench`, `make bench-full` and a smoke run."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

from benchmarks.contestant import Job

if TYPE_CHECKING:
    from pathlib import Path

    from benchmarks.contestant import Limits

BUDGET = 2_000_000_000
"""Memory for rows in full-size runs, in bytes."""

ANSWER_DATA = "2m"
LOAD_DATA = "10m"
LARGE_DATA = "25m"
LONG_FILE = "100m-file"
FILMS, ALL_FILMS = "films", "all-films"
MEASURES = ("CM4", "CM12", "CM3")
FIT_PEERS = {
    "scipy": "peer_scipy:count_pairs",
    "implicit": "peer_implicit:fit_neighbours",
    "duckdb": "peer_duckdb:count_pairs",
    "polars": "peer_polars:count_pairs",
}


@dataclass(frozen=True)
class Scale:
    """The sizes of all inputs."""

    data: dict[str, dict[str, Any]]
    curve: tuple[str, ...] = ()
    """Data of increasing size; empty to skip the large runs."""
    fit_data: tuple[str, ...] = ("ml-1m", "2m", "10m")
    whole: tuple[str, ...] = ("2m", "10m")
    """Data to count completely, of increasing size."""
    repeats: int = 5
    n_users: int = 1_000
    n_warm: int = 200
    n_batch: int = 10_000
    calibration: tuple[int, ...] = (100, 10_000, 100_000)
    n_candidates: int = 2_000_000
    n_asked: int = 2_000
    rankings: tuple[int, int] = (500, 10_000)
    learned_data: str = ""
    """Data of the learned measure; empty to skip it."""
    budget: int = BUDGET
    films: tuple[int, int] = (1_777, 10_000_000)
    """Files and ratings of a folder in the format of the Netflix Prize."""
    all_films: tuple[int, int] = (17_768, 100_000_000)
    """The same at full size, in the large runs."""
    long_file: tuple[int, int, int] = (480_000, 17_800, 100_000_000)
    """Users, items and rows of a Parquet file, in the large runs."""


def _made(users: int, items: int, rows: int, **more: Any) -> dict[str, Any]:
    return {"n_users": users, "n_items": items, "n_rows": rows, "random_state": 1, **more}


def _part_of_25m(rows: int) -> dict[str, Any]:
    """Return the options of data like the largest, with fewer users in proportion."""
    share = rows / 25_000_000
    longest = min(round(32_000 * share), 62_000)
    return _made(round(162_000 * share), 62_000, rows, longest=longest)


BENCH = Scale(
    data={
        "ml-1m": {"dataset": "ml-1m"},
        "2m": _made(14_000, 5_000, 2_000_000),
        "10m": _made(70_000, 20_000, 10_000_000),
    }
)
FULL = replace(
    BENCH,
    data=BENCH.data
    | {f"curve-{n}m": _part_of_25m(n * 1_000_000) for n in (1, 3, 10)}
    | {LARGE_DATA: _part_of_25m(25_000_000), "curve-100m": _part_of_25m(100_000_000)}
    | {"100m": _made(480_000, 17_800, 100_000_000)},  # counts above 65,535
    curve=("curve-1m", "curve-3m", "curve-10m", LARGE_DATA, "curve-100m"),
    whole=("2m", "10m", "100m"),
    learned_data="ml-1m",
)
SMALL = Scale(
    data={
        "2m": _made(120, 100, 3_000),
        "10m": _made(150, 150, 4_000),
        "curve-1m": _made(50, 200, 1_000, longest=60),
        LARGE_DATA: _made(150, 200, 4_000, longest=120),
    },
    curve=("curve-1m", LARGE_DATA),
    fit_data=("10m",),
    repeats=1,
    n_users=20,
    n_warm=2,
    n_batch=50,
    calibration=(20,),
    n_candidates=500,
    n_asked=50,
    rankings=(5, 50),
    learned_data="10m",
    budget=100_000,
    films=(5, 300),
    all_films=(9, 500),
    long_file=(50, 40, 1_000),
)
KINDS = {"bench": BENCH, "full": FULL, "small": SMALL}


def inputs(scale: Scale, folder: Path) -> list[Job]:
    """Return the jobs that write the inputs."""
    files = {LOAD_DATA: ["csv", "parquet"], LARGE_DATA: ["parquet"]}
    folders = {FILMS: scale.films} | ({ALL_FILMS: scale.all_films} if scale.curve else {})
    read = [
        Job(
            f"input/{name}",
            "data:write_films",
            {"folder": str(folder / name), "n_files": n_files, "n_rows": n_rows},
        )
        for name, (n_files, n_rows) in folders.items()
    ]
    if scale.curve:
        users, items, rows = scale.long_file
        options = {"folder": str(folder / LONG_FILE), "n_users": users, "n_items": items}
        read.append(Job(f"input/{LONG_FILE}", "data:write_rows", options | {"n_rows": rows}))
    return read + [
        Job(
            f"input/{name}",
            "data:write_input",
            {"folder": str(folder / name), "spec": spec, "files": files.get(name, [])},
        )
        for name, spec in scale.data.items()
    ]


def jobs(scale: Scale, folder: Path, limits: Limits) -> list[Job]:
    """Return all jobs, each contestant with its peers."""
    found = [job for name in scale.fit_data for job in _fitting(scale, folder / name, limits)]
    for name in ("2m", "10m"):
        options = {"folder": str(folder / name), "repeats": scale.repeats}
        found.append(Job(f"ceiling/{name}", "ours_fitting:share_of_ceiling", options))
    for name in scale.whole:
        options = {"folder": str(folder / name), "repeats": scale.repeats}
        found.append(Job(f"whole/{name}", "ours_fitting:whole_fit", options))
    found += _answering(scale, str(folder / ANSWER_DATA), str(folder / people_data(scale)))
    if scale.learned_data:
        options = {"n_users": scale.n_users, "n_warm": scale.n_warm, "repeats": scale.repeats}
        options |= {"folder": str(folder / scale.learned_data)}
        found.append(Job("learned/answers", "ours_answering:learned_answers", options))
    found += _numbers(scale)
    found += _reading(scale, folder)
    return found + _large(scale, folder)


def _reading(scale: Scale, folder: Path) -> list[Job]:
    found = []
    files = [(LOAD_DATA, "csv"), (LOAD_DATA, "parquet")]
    for name, suffix in files + ([(LONG_FILE, "parquet")] if scale.curve else []):
        options = {"folder": str(folder / name), "suffix": suffix, "repeats": 3}
        found.append(Job(f"load/{name}/{suffix}/surerec", "ours_reading:read_file", options))
        found.append(Job(f"load/{name}/{suffix}/polars", "peer_polars:read_file", options))
        if suffix == "parquet":
            key = f"load/{name}/{suffix}/polars-sorted"
            found.append(Job(key, "peer_polars:read_and_sort", options))
    options = {"folder": str(folder / FILMS), "repeats": 2}
    found.append(Job("films/surerec", "ours_reading:read_films", options))
    found.append(Job("films/by-cells", "ours_reading:read_films_by_cells", options))
    if scale.curve:
        options = {"folder": str(folder / ALL_FILMS), "repeats": 2}
        found.append(Job("films/all", "ours_reading:read_films", options))
    return found


def _fitting(scale: Scale, folder: Path, limits: Limits) -> list[Job]:
    options = {"folder": str(folder), "repeats": scale.repeats}
    ours = {
        "one-direction": "ours_fitting:count_one_direction",
        "both-directions": "ours_fitting:count_both_directions",
    }
    # duckdb gets a memory limit, beyond which it uses the disk.
    more = {"duckdb": {"memory": 3 * limits.memory // 4}}
    return [
        Job(f"fit/{folder.name}/{name}", contestant, options | more.get(name, {}))
        for name, contestant in (ours | FIT_PEERS).items()
    ]


def people_data(scale: Scale) -> str:
    """Return the real data, or synthetic data in a smoke run."""
    return "ml-1m" if "ml-1m" in scale.data else ANSWER_DATA


def _answering(scale: Scale, folder: str, real_data: str) -> list[Job]:
    one = {"folder": folder, "n_users": scale.n_users, "n_warm": scale.n_warm}
    many = {"folder": folder, "n_users": scale.n_batch, "repeats": scale.repeats}
    models = (*MEASURES, "CRS-max")
    return [
        *(
            Job(f"one/{m}", "ours_answering:one_user", one | {"name": m, "memory": None})
            for m in models
        ),
        Job("one/implicit", "peer_implicit:one_user", one),
        *(
            Job(f"many/{m}", "ours_answering:many_users", many | {"name": m})
            for m in ("CM4", "CM12", "population-CM12")
        ),
        *(
            Job(
                f"many-20/{m}",
                "ours_answering:many_users",
                many | {"folder": real_data, "name": m, "k": 20},
            )
            for m in ("CM12", "population-CM12")
        ),
        Job("many/implicit", "peer_implicit:many_users", many),
        Job("many/implicit-als", "peer_implicit:many_users_als", many),
    ]


def _numbers(scale: Scale) -> list[Job]:
    found = []
    for size in scale.calibration:
        options = {
            "n_calibration": size,
            "n_candidates": scale.n_candidates,
            "repeats": scale.repeats,
        }
        options_of = {"n_asked": scale.n_asked}
        found += [
            Job(f"p-values/{size}/surerec", "ours_answering:p_values", options),
            Job(f"p-values/{size}/numpy", "peer_numpy:p_values", options),
            Job(f"p-values/{size}/crepes", "peer_crepes:p_values", options | options_of),
        ]
    users, items = scale.rankings
    options = {"n_users": users, "n_items": items, "repeats": scale.repeats}
    contestants = {
        "surerec": "ours_answering:metrics",
        "numpy": "peer_numpy:metrics",
        "ir-measures": "peer_ir_measures:metrics",
    }
    return found + [Job(f"metrics/{name}", what, options) for name, what in contestants.items()]


def _large(scale: Scale, folder: Path) -> list[Job]:
    if not scale.curve:
        return []
    large = {"folder": str(folder / LARGE_DATA)}
    one = large | {"n_users": scale.n_users, "n_warm": scale.n_warm}
    budgets = {"budget": scale.budget, "default": None}
    fit = {"memory": scale.budget, "repeats": 2}
    return [
        *(
            Job(f"curve/{name}", "ours_fitting:fit_within", fit | {"folder": str(folder / name)})
            for name in scale.curve
        ),
        *(
            Job(f"first/{name}", "ours_fitting:first_recommendation", large | {"memory": memory})
            for name, memory in budgets.items()
        ),
        *(
            Job(
                f"large-one/{name}",
                "ours_answering:one_user",
                one | {"name": name, "memory": scale.budget},
            )
            for name in ("CM3", "CM12")
        ),
        Job("large-one/implicit", "peer_implicit:one_user", one),
    ]
