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
    assert n_steps > 4 * n_files  # open, write, sync, rename; and the manifest
    return [work / f"{step:03d}" / "model" for step in range(n_steps)]


def test_a_first_save_killed_at_any_step_is_a_whole_model_or_none(tmp_path):
    whole = []
    for folder in kill_at_every_step(tmp_path / "work"):
        whole.append((folder / "manifest.json").exists())
        if whole[-1]:
            assert holds(folder, new_statistics())
            assert same(load_model(folder).recommenders, SAVED)
        else:
            with pytest.raises(InputError, match=r"no folder|no complete model|has no manifest"):
                load_model(folder)
        save_model(folder, new_statistics(), {"again": OTHER})
        assert holds(folder, new_statistics())
        assert_tidy(folder)
    assert sorted(whole) == whole  # none until the manifest is there, whole ever after
    assert set(whole) == {False, True}


@pytest.mark.parametrize(
    ("statistics", "before", "after", "n_files"),
    [
        (old_statistics(), {"a": OTHER, "b": LEARNED_EARLIER}, SAVED, 11),
        (new_statistics(), KEPT, KEPT | SAVED, 2),
    ],
    ids=["other statistics", "other states"],
)
def test_a_save_killed_at_any_step_leaves_the_old_model_or_the_new(
    tmp_path, statistics, before, after, n_files
):
    save_model(tmp_path / "old", statistics, before)
    replaced = []
    for folder in kill_at_every_step(tmp_path / "work", tmp_path / "old", n_files=n_files):
        found = load_model(folder).recommenders
        replaced.append("main" in found)
        assert same(found, after if replaced[-1] else before)
        assert holds(folder, new_statistics() if replaced[-1] else statistics)
        save_model(folder, new_statistics(), {"again": OTHER}, overwrite=True)
        assert holds(folder, new_statistics())
        assert_tidy(folder)
    assert sorted(replaced) == replaced
    assert set(replaced) == {False, True}
