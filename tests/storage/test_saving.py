import errno
import itertools
import os
import subprocess
import sys
from pathlib import Path

import numpy as np
import polars as pl
import pytest

import surerec as sr
from surerec.errors import InputError
from surerec.interactions import IdMap
from surerec.measures import State
from surerec.storage import RecommenderSpec, load_model, read_card, save_model
from tests.storage.stored_models import (
    LEARNED,
    LEARNED_EARLIER,
    MAIN,
    OTHER,
    assert_same,
    assert_tidy,
    holds,
    new_statistics,
    old_statistics,
    same,
    statistics_of,
)


def contents(folder):
    return {path.name: path.read_bytes() for path in folder.iterdir()}


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "model", old_statistics(), {"main": MAIN})
    return tmp_path / "model"


def test_adding_recommenders_does_not_rewrite_statistics(model):
    files = {path: path.stat() for path in model.iterdir() if path.name != "manifest.json"}
    created = read_card(model)["created"]
    save_model(model, old_statistics(), {"other": MAIN})
    renamed = statistics_of([0, 1, 2], [2, 0], [1], name="renamed")
    save_model(model, renamed, {"other": OTHER}, overwrite=True)
    assert same(load_model(model).recommenders, {"main": MAIN, "other": OTHER})
    assert read_card(model)["created"] == created
    assert read_card(model)["data"]["name"] == "renamed"
    for path, before in files.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert_tidy(model)


@pytest.mark.parametrize(
    "other",
    [
        new_statistics(),
        statistics_of([0, 1, 2], [2, 0], [1], ties="strict"),
        statistics_of([0, 1, 2], [2, 0], [1], strategy="bounded"),
        sr.PrecedenceStatistics.from_counts([[0]], [1], n_users=1),
    ],
)
def test_other_statistics_need_overwrite(model, other):
    loaded = load_model(model).statistics
    (model / "README.txt").write_text("mine")
    before = contents(model)
    with pytest.raises(InputError, match=r"holds a model with other statistics \(old: 3 users"):
        save_model(model, other, {"main": OTHER})
    assert contents(model) == before
    save_model(model, other, {"new": OTHER}, overwrite=True)
    assert same(load_model(model).recommenders, {"new": OTHER})
    assert_same(load_model(model).statistics, other)
    assert_same(loaded, old_statistics())  # what was loaded before stays as it is
    (model / "README.txt").unlink()  # what else lies in the folder is not touched
    assert_tidy(model)


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json", "followers.npy"])
def test_a_folder_of_other_files_is_unchanged(tmp_path, name, overwrite):
    (tmp_path / name).write_text('{"name": "a web page"}')
    with pytest.raises(InputError, match=r"holds (other files than a|no) surerec model"):
        save_model(tmp_path, old_statistics(), {}, overwrite=overwrite)
    assert contents(tmp_path) == {name: b'{"name": "a web page"}'}


def test_a_file_instead_of_a_folder(write):
    path = write("model", "x")
    with pytest.raises(InputError, match="model is a file"):
        save_model(path, old_statistics(), {}, overwrite=True)
    with pytest.raises(InputError, match=r"cannot be written to .*not a directory"):
        save_model(path / "inside", old_statistics(), {})
    assert path.read_text() == "x"


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"caf\\udce9' is not valid UTF-8.*Use another name"):
        save_model(tmp_path / os.fsdecode(b"caf\xe9"), old_statistics(), {"main": MAIN})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_files_have_the_permissions_of_their_folder(tmp_path, mode, expected):
    before = os.umask(0o022)
    try:
        (tmp_path / "model").mkdir(mode)
        save_model(tmp_path / "model", old_statistics(), {"main": MAIN})
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {expected}


def test_saving_again_repairs_damaged_files(model):
    for path in model.glob("*.npy"):
        path.write_bytes(b"\0" * path.stat().st_size)
    next(model.glob("*.arrow")).unlink()
    save_model(model, old_statistics(), {})
    assert holds(model, old_statistics())
    assert set(load_model(model).recommenders) == {"main"}


def test_statistics_without_a_user_cannot_be_stored(tmp_path):
    with pytest.raises(InputError, match="with a user left out"):
        save_model(tmp_path / "model", old_statistics().without_user(0), {})


def test_statistics_of_wrong_types_cannot_be_stored(tmp_path):
    statistics = statistics_of([0, 1, 2], [2, 0], [1])
    statistics.interactions.times = statistics.interactions.times.astype(float)
    with pytest.raises(InputError, match=r"cannot be stored: times is float64 \(6,\), not int64"):
        save_model(tmp_path / "model", statistics, {})
    interactions = sr.Interactions.from_profiles([0, 1], [0])
    interactions.items = IdMap(pl.Series([1.5]), noun="item")
    with pytest.raises(InputError, match="ids of items are of type Float64, not integers or text"):
        save_model(tmp_path / "model", sr.count_precedence(interactions), {})


def test_a_limit_on_file_sizes_is_like_a_full_disk(model):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(InputError, match="Free disk space"):
            save_model(model, new_statistics(), {}, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert holds(model, old_statistics())
    assert_tidy(model)


@pytest.mark.parametrize("error", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()])
def test_a_save_that_fails_at_any_sync_leaves_one_whole_model(tmp_path, monkeypatch, error):
    really_sync, seen = os.fsync, set()
    for last in itertools.count():
        folder = tmp_path / str(last)
        save_model(folder, old_statistics(), {})
        left = iter(range(last))

        def sync(descriptor, left=left):
            if next(left, None) is None:
                raise error
            really_sync(descriptor)

        monkeypatch.setattr(os, "fsync", sync)
        try:
            save_model(folder, new_statistics(), {}, overwrite=True)
            break
        except (InputError, KeyboardInterrupt):
            seen.add(holds(folder, new_statistics()) or not holds(folder, old_statistics()))
        with pytest.raises((InputError, KeyboardInterrupt), match=r"^$|input/output error"):
            save_model(tmp_path / "first", old_statistics(), {})
        assert not (tmp_path / "first").exists()
        monkeypatch.undo()
        assert not list(folder.glob("*.part"))
    assert last > 8
    assert seen == {True, False}  # the folder's own syncs come after the new manifest
    assert_tidy(folder)


SAVER = """
import sys
from tests.storage.stored_models import MAIN, old_statistics
from surerec.storage import save_model

old_statistics()
print("ready", flush=True)
input()
for i in range(20):
    save_model(sys.argv[1], old_statistics(), {f"{sys.argv[2]}-{i}": MAIN})
"""


def test_concurrent_saves_lose_nothing_and_readers_see_complete_models(model):
    helpers = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    savers = [
        subprocess.Popen(  # noqa: S603
            [sys.executable, "-c", SAVER, str(model), name],
            env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, helpers))},
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            text=True,
        )
        for name in "ab"
    ]
    with savers[0], savers[1]:
        assert [saver.stdout.readline() for saver in savers] == ["ready\n"] * 2
        for saver in savers:
            saver.stdin.write("go\n")
            saver.stdin.flush()
        seen = set()
        while any(saver.poll() is None for saver in savers):
            seen.add(len(load_model(model).recommenders))
    assert [saver.returncode for saver in savers] == [0, 0]
    assert len(seen) > 2
    names = {f"{name}-{i}" for name in "ab" for i in range(20)}
    assert set(load_model(model).recommenders) == names | {"main"}
    assert_tidy(model)


def state_files(folder):
    return {path.name for path in folder.iterdir() if path.name.startswith(("array-", "text-"))}


def test_equal_states_share_a_file_and_replaced_ones_are_removed(tmp_path):
    one = np.arange(5)
    specs = {
        "a": RecommenderSpec("kind", {}, State({"x": one, "y": one.copy()}, {"t": "text"})),
        "b": RecommenderSpec("kind", {}, State({"z": one}, {"u": "text"})),
    }
    save_model(tmp_path, old_statistics(), specs)
    assert len(state_files(tmp_path)) == 2
    save_model(tmp_path, old_statistics(), {"a": LEARNED})
    old = state_files(tmp_path)
    save_model(tmp_path, old_statistics(), {"a": LEARNED_EARLIER})
    assert same(load_model(tmp_path).recommenders, {"a": LEARNED_EARLIER, "b": specs["b"]})
    assert len(old & state_files(tmp_path)) == 3  # those of b, and one that both of a used
    assert_tidy(tmp_path)


def stored(**state):
    return {"x": RecommenderSpec("kind", {}, State(**state))}


CANNOT_NAME = "is not a valid array or text name \\(recommender 'x'\\)"


@pytest.mark.parametrize(
    ("recommenders", "says"),
    [
        *[
            ({name: MAIN}, "is not a valid recommender name")
            for name in ("", "a/b", "..", "a b", "ä", "a\n", "a" * 101, 7)
        ],
        *[
            ({"x": RecommenderSpec("kind", params)}, "parameters of recommender 'x' cannot be")
            for params in ({"a": float("nan")}, {"a": {1}}, {1: 2}, {"a": (1,)}, 7)
        ],
        *[(stored(texts={n: "t"}), CANNOT_NAME) for n in ("", "A", "../a", "ä", "1a", "a" * 51, 7)],
        (stored(arrays={"a/b": np.ones(1)}), CANNOT_NAME),
        *[
            (stored(arrays={"a": array}), f"'a' in the arrays of recommender 'x' .* {what}")
            for array, what in (
                ([1, 2], "of type list, not a NumPy array"),
                (np.ma.masked_array([1, 2], [True, False]), "of type MaskedArray"),
                (np.array([print]), "array is object"),
                (np.array([1.0], dtype=">f8"), "array is float64"),
            )
        ],
        (stored(texts={"t": "ab\udcff"}), "'t' in the texts of recommender 'x' .*surrogates"),
        (stored(texts={"t": "ü" * 6}), "'t' in the texts of .* 12 bytes, more than 10"),
    ],
)
def test_invalid_recommenders_cannot_be_stored(tmp_path, monkeypatch, recommenders, says):
    monkeypatch.setattr("surerec.storage._files.MOST_TEXT", 10)
    with pytest.raises(InputError, match=says):
        save_model(tmp_path / "model", old_statistics(), recommenders)
    assert not (tmp_path / "model").exists()
