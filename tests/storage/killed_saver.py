"""Saves again and again, killed one step later each time; run as a program by test_kill.py."""

import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

from surerec.storage import save_model
from tests.storage.stored_models import LEARNED, MAIN, new_statistics

CHANGES = {"os.rename", "os.remove", "os.mkdir", "os.rmdir"}


def die_after(left):
    """Kill this process at a step: at what opens, syncs, renames or removes a file or folder."""
    steps = iter(range(left))

    def step(event, arguments):
        writes = event == "open" and (arguments[2] or 0) & (os.O_WRONLY | os.O_RDWR)
        if (writes or event in CHANGES) and next(steps, None) is None:
            os.kill(os.getpid(), signal.SIGKILL)

    really_sync = os.fsync

    def sync(descriptor):
        step("os.rename", ())
        really_sync(descriptor)

    os.fsync = sync
    sys.addaudithook(step)


def main(work, old):
    """Leave in `work` one folder for each step; print how many steps a save takes."""
    statistics = new_statistics()
    for step in itertools.count():
        folder = work / f"{step:03d}" / "model"
        folder.parent.mkdir()
        if old is not None:
            shutil.copytree(old, folder)
        child = os.fork()
        if not child:
            die_after(step)
            save_model(folder, statistics, {"main": MAIN, "learned": LEARNED}, overwrite=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            print(step)  # noqa: T201
            return
        assert os.WTERMSIG(status) == signal.SIGKILL, status


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
