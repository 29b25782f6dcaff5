"""Mutated files: every reader succeeds, or raises an error that names the file."""

from __future__ import annotations

import gc
import os
import resource
import sys
import tempfile
from functools import cache
from pathlib import Path
from random import Random
from time import perf_counter
from typing import TYPE_CHECKING, Final

import surerec as sr
from fuzz.confined import run_confined, send
from fuzz.file_mutations import mutate
from fuzz.file_seeds import Case, seed_case
from fuzz.tally import Tally
from surerec.cli import app
from surerec.errors import SurerecError, UnknownIdError
from surerec.serving import KeyFile

if TYPE_CHECKING:
    from collections.abc import Callable

TIME_LIMIT: Final = 10.0
"""Time limit for one small file, in seconds."""
MEMORY_LIMIT: Final = 400 << 20
"""Memory limit for one small file, in bytes."""
_ADDRESSES: Final = 4 << 30  # address space beyond the current use


def run(n: int, random_state: int) -> Tally:
    """Read `n` files in processes with limited memory and time."""

    def example(number: int) -> str:
        return f"python -m fuzz.files {number} {random_state}"

    return run_confined(
        "files", "fuzz.files", n, random_state, time_limit=2 * TIME_LIMIT, example=example
    )


def case(number: int, random_state: int) -> Case:
    """Return the input of these numbers."""
    rng = Random(f"{random_state}-{number}")
    return mutate(seed_case(rng), rng)


def read(case: Case, folder: Path) -> None:
    """Write the files of a case and read them; an error must name one of them."""
    for name, content in case.files.items():
        (folder / name).write_bytes(content)
        (folder / name).chmod(0o600)
    try:
        READERS[case.reader](folder, case)
    except UnknownIdError:
        raise  # names the unknown user instead
    except SurerecError as error:
        if not any(name in str(error) for name in (*case.files, str(folder))):
            raise RuntimeError(f"an error that names no file: {error}") from error
        raise


def _interactions(folder: Path, case: Case) -> None:
    sr.read_interactions(folder / next(iter(case.files)), **case.options)


def _folder(folder: Path, case: Case) -> None:
    sr.read_interactions(folder, **case.options)


def _several(folder: Path, case: Case) -> None:
    sr.read_interactions([folder / name for name in case.files], **case.options)


def _data_set(folder: Path, case: Case) -> None:
    sr.load_dataset(path=folder / next(iter(case.files)), **case.options)


def _data_set_folder(folder: Path, case: Case) -> None:
    sr.load_dataset(path=folder, **case.options)


def _users(folder: Path, case: Case) -> None:
    (users,) = case.files
    words = ["recommend", str(_model()), "--users", str(folder / users), "--k", "1"]
    app([*words, "--output", str(folder / "picks.csv")], standalone_mode=False)


def _keys(folder: Path, case: Case) -> None:
    (name,) = case.files
    file = KeyFile(folder / name)
    kept = file.read()
    file.create("another", ["read"])
    if kept:
        file.revoke(kept[0].key_id)


READERS: Final[dict[str, Callable[[Path, Case], None]]] = {
    "interactions": _interactions,
    "folder": _folder,
    "several": _several,
    "data set": _data_set,
    "data set folder": _data_set_folder,
    "users": _users,
    "keys": _keys,
}


@cache
def _model() -> Path:
    folder = Path(tempfile.mkdtemp(prefix="surerec-fuzz-")) / "model"
    data = sr.datasets.synthetic(n_users=30, n_items=20, n_rows=300, random_state=1)
    sr.InductiveConformal("CM3").fit(data).save(folder)
    return folder


def _warm_up() -> None:
    """Compile kernels before time and memory are measured."""
    rows = b"user,item,rating,time\n1,2,3,4\n1,3,3,5\n"
    with tempfile.TemporaryDirectory(prefix="surerec-fuzz-") as folder:
        read(Case("users", {"users.txt": b"1\n"}), Path(folder))
        read(Case("interactions", {"r.csv": rows}), Path(folder))


def try_one(number: int, random_state: int) -> Tally:
    """Read one input, and count its outcome, including exceeded limits."""
    tried = case(number, random_state)
    tally = Tally("files")
    before, start = _resident(), perf_counter()
    with tempfile.TemporaryDirectory(prefix="surerec-fuzz-") as folder:
        tally.attempt(lambda: read(tried, Path(folder)), ", ".join(tried.done))
    if (seconds := perf_counter() - start) > TIME_LIMIT:
        tally.fail(f"longer than {TIME_LIMIT:.0f} s", f"{seconds:.0f} s")
    if (grown := _resident() - before) > MEMORY_LIMIT:
        tally.fail("more memory than the limit", f"{grown >> 20} MiB")
    return tally


def _resident() -> int:
    """Return the peak memory of this process."""
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * 1024


def _several_inputs(first: int, last: int, random_state: int, pipe: int) -> None:
    """Try inputs in turn, and count panics that libraries write to stderr."""
    _warm_up()
    gc.freeze()  # excludes the libraries from garbage collection
    in_use = int(Path("/proc/self/statm").read_text().split()[0]) * resource.getpagesize()
    resource.setrlimit(resource.RLIMIT_AS, (in_use + _ADDRESSES, in_use + _ADDRESSES))
    terminal = os.dup(2)
    with tempfile.TemporaryFile() as errors:
        os.dup2(errors.fileno(), 2)
        try:
            for number in range(first, last):
                send(pipe, input=number)
                written = os.fstat(2).st_size
                tally = try_one(number, random_state)
                if b"panicked" in os.pread(errors.fileno(), 1 << 16, written):
                    tally.notes["panics on stderr"] += 1
                send(pipe, outcome=True, **vars(tally))
        finally:
            os.dup2(terminal, 2)


def _main(*numbers: int) -> None:
    if len(numbers) == 2:
        number, random_state = numbers
        print(case(number, random_state))
        print(try_one(number, random_state))
    else:
        _several_inputs(*numbers)


if __name__ == "__main__":
    _main(*map(int, sys.argv[1:]))
