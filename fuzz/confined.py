"""Runs inputs in child processes, so that a crash or a hang is one failure."""

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
    """Run inputs with ``python -m module FIRST LAST SEED PIPE``, and count the outcomes.

    The child writes a line of JSON to the descriptor PIPE before each input (``{"input": i}``) and
    after it (``{"outcome": …}``, see :func:`send`). If it crashes, or writes nothing within the
    time limit, the current input has failed, and another process continues after it.

    Parameters
    ----------
    kind : str
        Name of the tally.
    module : str
        The module to run.
    n, random_state : int
        Number of inputs, and their seed.
    time_limit : float
        Seconds for one input, without the start of a process.
    example : callable
        Returns how to reproduce an input.
    """
    tally = Tally(kind)
    first = 0
    while first < n:
        last = min(first + _AT_ONCE, n)
        for reply in _replies(module, first, last, random_state, time_limit):
            if "input" in reply:
                first = reply["input"] + 1
            elif "died" in reply:
                tally.fail(reply["died"], example(first - 1))
            else:
                one = Tally(kind, reply["answered"], reply["refused"])
                for name, count in reply["failures"].items():
                    one.failures[name] = count
                    one.examples[name] = f"{reply['examples'][name]}; {example(first - 1)}"
                one.notes.update(reply["notes"])
                tally.merge(one)
    return tally


def send(pipe: int, **facts: Any) -> None:
    """Write a line to the parent process."""
    os.write(pipe, (json.dumps(facts) + "\n").encode())


def _replies(
    module: str, first: int, last: int, random_state: int, time_limit: float
) -> Iterator[dict[str, Any]]:
    ours, theirs = os.pipe()
    command = [sys.executable, "-m", module, *map(str, (first, last, random_state, theirs))]
    child = subprocess.Popen(  # noqa: S603  # our own command
        command, pass_fds=[theirs], stdout=subprocess.DEVNULL, stderr=subprocess.PIPE
    )
    os.close(theirs)
    started, rest, silent = False, b"", False
    with os.fdopen(ours, "rb", buffering=0) as pipe:
        while True:
            # The first input includes imports and compilation.
            ready, _, _ = select.select([pipe], [], [], time_limit if started else 300)
            if not ready:
                silent = True
                child.kill()
                break
            if not (chunk := pipe.read(1 << 16)):
                break
            *lines, rest = (rest + chunk).split(b"\n")
            for line in lines:
                reply = json.loads(line)
                started |= "outcome" in reply
                yield reply
    _, errors = child.communicate()
    if silent:
        yield {"died": f"longer than {time_limit:.0f} s"}
    elif child.returncode < 0:
        yield {"died": f"killed by {signal.Signals(-child.returncode).name}"}
    elif child.returncode:
        raise RuntimeError(f"{module} ended with {child.returncode}: {errors.decode()[-2000:]}")
