"""Many inputs in processes of their own: what kills one, or hangs, is one failure and no end."""

from __future__ import annotations

import json
import os
import select
import signal
import subprocess
import sys
from typing import TYPE_CHECKING, Any

from fuzz.tally import Tally

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator

_AT_ONCE = 1000


def run_confined(
    kind: str,
    module: str,
    n: int,
    random_state: int,
    *,
    time_limit: float,
    example: Callable[[int], str],
) -> Tally:
    """Let ``python -m module FIRST LAST SEED PIPE`` try inputs, and gather what it tells.

    It writes a line of JSON to the descriptor PIPE before each input (``{"input": i}``) and after
    it (``{"outcome": …}``, see :func:`tell`). If it dies, or is silent for longer than the time
    limit, the input that it was at has failed, and another process goes on behind it.

    Parameters
    ----------
    kind : str
        What the tally is called.
    module : str
        What is run.
    n, seed : int
        How many inputs, and which.
    time_limit : float
        Seconds for one input, the start of a process not counted.
    example : callable
        Says how to try an input again.
    """
    tally = Tally(kind)
    first = 0
    while first < n:
        last = min(first + _AT_ONCE, n)
        for told in _tell(module, first, last, random_state, time_limit):
            if "input" in told:
                first = told["input"] + 1
            elif "died" in told:
                tally.fail(told["died"], example(first - 1))
            else:
                one = Tally(kind, told["answered"], told["refused"])
                for name, count in told["failures"].items():
                    one.failures[name] = count
                    one.examples[name] = f"{told['examples'][name]}; {example(first - 1)}"
                one.notes.update(told["notes"])
                tally.merge(one)
    return tally


def tell(pipe: int, **facts: Any) -> None:
    """Write a line to whoever gathers."""
    os.write(pipe, (json.dumps(facts) + "\n").encode())


def _tell(
    module: str, first: int, last: int, random_state: int, time_limit: float
) -> Iterator[dict[str, Any]]:
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", module, *map(str, (first, last, random_state, theirs))]
    child = subprocess.Popen(  # noqa: S603  # ourselves
        command, pass_fds=[theirs], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    os.close(theirs)
    begun, rest, silent = False, b"", False
    with os.fdopen(ours, "rb", buffering=0) as pipe:
        while True:
            # The first input waits for imports and kernels.
            ready, _, _ = select.select([pipe], [], [], time_limit if begun else 300)
            if not ready:
                silent = True
                child.kill()
                break
            if not (chunk := pipe.read(1 << 16)):
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                told = json.loads(line)
                begun |= "outcome" in told
                yield told
    _, said = child.communicate()
    if silent:
        yield {"died": f"longer than {time_limit:.0f} s"}
    elif child.returncode < 0:
        yield {"died": f"killed by {signal.Signals(-child.returncode).name}"}
    elif child.returncode:
        raise RuntimeError(f"{module} ended with {child.returncode}: {said.decode()[-2000:]}")
