import os
import subprocess
import sys
from pathlib import Path

import pytest

from surerec.errors import InputError
from surerec.storage import load_model, save_model
from tests.storage.stored_models import (
    LEARNED,
    LEARNED_EARLIER,
    MAIN,
    OTHER,
    assert_tidy,
    holds,
    new_statistics,
    old_statistics,
    same,
)

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="kills forked processes")


ROOT = Path(__file__).parents[2]
SAVED = {"main": MAIN, "learned": LEARNED}  # as killed_saver.py does
KEPT = {"kept": LEARNED_EARLIER, "learned": LEARNED_EARLIER}


def kill_at_every_step(work, *old, n_files=11):
    work.mkdir()
    done = subprocess.run(  # noqa: S603
        [sys.executable, "-W", "ignore", "-m", "tests.storage.killed_saver", work, *old],
        cwd=ROOT,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    n_steps = int(done.stdout)
    assert n_steps > 3 * n_files  # open, sync, rename; and the manifest
    return [work / f"{step:03d}" / "model" for step in range(n_steps)]


@pytest.mark.parametrize(
    ("statistics", "before", "after", "n_files"),
    [
        (None, None, SAVED, 11),
        (old_statistics(), {"a": OTHER, "b": LEARNED_EARLIER}, SAVED, 11),
        (new_statistics(), KEPT, KEPT | SAVED, 2),
    ],
    ids=["nothing", "other statistics", "other states"],
)
def test_a_save_killed_at_any_step_leaves_the_old_model_or_the_new(
    tmp_path, statistics, before, after, n_files
):
    old = []
    if before is not None:
        old = [tmp_path / "old"]
        save_model(*old, statistics, before)
    replaced = []
    for folder in kill_at_every_step(tmp_path / "work", *old, n_files=n_files):
        if before is None and not (folder / "manifest.json").exists():
            replaced.append(False)
            with pytest.raises(InputError, match=r"no folder|incomplete model|no manifest"):
                load_model(folder)
        else:
            found = load_model(folder).recommenders
            replaced.append("main" in found)
            assert same(found, after if replaced[-1] else before)
            assert holds(folder, new_statistics() if replaced[-1] else statistics)
        save_model(folder, new_statistics(), {"again": OTHER}, overwrite=True)
        assert holds(folder, new_statistics())
        assert_tidy(folder)
    assert sorted(replaced) == replaced  # the old one until the manifest is there, then the new
    assert set(replaced) == {False, True}
