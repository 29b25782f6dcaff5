"""Saves again and again, killed one step later each time; run as a program by test_kill.py."""

import io
import itertools
import os
import shutil
import signal
import sys
from pathlib import Path

from surerec.storage import save_model
from tests.storage.stored_models import LEARNED, MAIN, new_statistics


class Steps:
    """Counts what changes the disk, and dies at one of the steps."""

    def __init__(self, last):
        self.left = last

    def come_to_an_end(self):
        self.left -= 1
        return self.left < 0

    @staticmethod
    def die():
        os.kill(os.getpid(), signal.SIGKILL)

    def before(self, function):
        def counted(*arguments, **options):
            if self.come_to_an_end():
                self.die()
            return function(*arguments, **options)

        return counted

    def install(self):
        for name in ("fsync", "replace", "rename", "unlink", "remove", "mkdir", "rmdir"):
            setattr(os, name, self.before(getattr(os, name)))
        really_open = io.open

        def counted_open(file, mode="r", *arguments, **options):
            if mode[0] not in "wxa":
                return really_open(file, mode, *arguments, **options)
            if self.come_to_an_end():
                self.die()
            return TornFile(really_open(file, mode, *arguments, **options), self)

        io.open = counted_open


class TornFile:
    """A file whose writer dies in the middle of a write."""

    def __init__(self, file, steps):
        self._file = file
        self._steps = steps

    def __enter__(self):
        return self

    def __exit__(self, *error):
        self._file.close()

    def __getattr__(self, name):
        return getattr(self._file, name)

    def write(self, data):
        if self._steps.come_to_an_end():
            self._file.write(data[: len(data) // 2])
            self._file.flush()
            self._steps.die()
        return self._file.write(data)


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
            Steps(step).install()
            save_model(folder, statistics, {"main": MAIN, "learned": LEARNED}, overwrite=True)
            os._exit(0)
        _, status = os.waitpid(child, 0)
        if os.waitstatus_to_exitcode(status) == 0:
            print(step)  # noqa: T201
            return
        assert os.WTERMSIG(status) == signal.SIGKILL, status


if __name__ == "__main__":
    main(Path(sys.argv[1]), Path(sys.argv[2]) if len(sys.argv) > 2 else None)
