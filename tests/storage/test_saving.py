import errno
import itertools
import os
import subprocess
import sys
import textwrap
from pathlib import Path
from types import SimpleNamespace

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


def test_recommenders_come_to_statistics_that_are_not_written_again(model):
    files = {path: path.stat() for path in model.iterdir() if path.name != "manifest.json"}
    created = read_card(model)["created"]
    save_model(model, old_statistics(), {"other": MAIN})
    save_model(model, old_statistics(), {"other": OTHER}, overwrite=True)
    assert same(load_model(model).recommenders, {"main": MAIN, "other": OTHER})
    assert read_card(model)["created"] == created
    for path, before in files.items():
        assert (path.stat().st_ino, path.stat().st_mtime_ns) == (before.st_ino, before.st_mtime_ns)
    assert_tidy(model)


@pytest.mark.parametrize(
    "other",
    [
        new_statistics(),
        statistics_of([0, 1, 2], [2, 0], [1], ties="strict"),
        statistics_of([0, 1, 2], [2, 0], [1], strategy="on-demand"),
        sr.PrecedenceStatistics.from_counts([[0]], [1], n_users=1),
    ],
)
def test_other_statistics_are_refused_unless_asked_for(model, other):
    before = contents(model)
    with pytest.raises(InputError, match=r"model holds a model of other statistics \(old: 3 users"):
        save_model(model, other, {"main": OTHER})
    assert contents(model) == before
    save_model(model, other, {"new": OTHER}, overwrite=True)
    assert same(load_model(model).recommenders, {"new": OTHER})
    assert_same(load_model(model).statistics, other)
    assert_tidy(model)


def test_the_same_data_under_another_name_are_the_same(model):
    renamed = statistics_of([0, 1, 2], [2, 0], [1], name="renamed")
    save_model(model, renamed, {"other": OTHER})
    assert read_card(model)["data"]["name"] == "renamed"
    assert set(load_model(model).recommenders) == {"main", "other"}


@pytest.mark.parametrize("overwrite", [False, True])
@pytest.mark.parametrize("name", ["thesis.txt", "manifest.json", "followers.npy"])
def test_a_folder_of_something_else_is_left_alone(tmp_path, name, overwrite):
    (tmp_path / name).write_text('{"name": "a web page"}')
    with pytest.raises(InputError, match=r"holds (other files than a|no) surerec model"):
        save_model(tmp_path, old_statistics(), {}, overwrite=overwrite)
    assert contents(tmp_path) == {name: b'{"name": "a web page"}'}


def test_a_file_where_the_folder_should_be(write):
    path = write("model", "x")
    with pytest.raises(InputError, match="model is a file"):
        save_model(path, old_statistics(), {}, overwrite=True)
    with pytest.raises(InputError, match=r"cannot be written into .*not a directory"):
        save_model(path / "inside", old_statistics(), {})
    assert path.read_text() == "x"
    (path.parent / "link").symlink_to(path.parent / "gone")
    with pytest.raises(InputError, match="cannot be written into"):
        save_model(path.parent / "link", old_statistics(), {})


@pytest.mark.skipif(sys.platform != "linux", reason="other systems have no such names")
def test_a_name_that_is_not_utf_8_is_refused(tmp_path):
    with pytest.raises(InputError, match=r"caf\\udce9' is not valid UTF-8.*choose another name"):
        save_model(tmp_path / os.fsdecode(b"caf\xe9"), old_statistics(), {"main": MAIN})
    assert not list(tmp_path.iterdir())


@pytest.mark.skipif(os.name != "posix", reason="modes are those of POSIX")
@pytest.mark.parametrize(("mode", "expected"), [(0o700, 0o600), (0o750, 0o640), (0o755, 0o644)])
def test_who_may_not_list_a_folder_may_not_read_its_files(tmp_path, mode, expected):
    before = os.umask(0o022)
    try:
        (tmp_path / "model").mkdir(mode)
        save_model(tmp_path / "model", old_statistics(), {"main": MAIN})
    finally:
        os.umask(before)
    assert {path.stat().st_mode & 0o777 for path in (tmp_path / "model").iterdir()} == {expected}


def test_what_else_lies_in_a_model_folder_stays(model):
    (model / "README.txt").write_text("mine")
    save_model(model, new_statistics(), {}, overwrite=True)
    assert (model / "README.txt").read_text() == "mine"
    assert holds(model, new_statistics())


def test_left_overs_of_an_interrupted_save_go(model):
    left = [
        "times-0123456789abcdef.npy",
        "manifest.json.0123abcd.part",
        "users-0123456789abcdef.arrow",
    ]
    for name in left:
        (model / name).touch()
    save_model(model, old_statistics(), {})
    assert_tidy(model)


def test_saving_again_repairs_damaged_files(model):
    for path in model.glob("*.npy"):
        path.write_bytes(b"\0" * path.stat().st_size)
    next(model.glob("*.arrow")).unlink()
    save_model(model, old_statistics(), {})
    assert holds(model, old_statistics())
    assert set(load_model(model).recommenders) == {"main"}


@pytest.mark.parametrize("name", ["", "a/b", "..", ".", "a b", "ä", "a\n", "\\x", "a" * 101, 7])
def test_names_that_no_recommender_can_have(tmp_path, name):
    with pytest.raises(InputError, match="cannot name a recommender"):
        save_model(tmp_path / "model", old_statistics(), {name: MAIN})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    "params", [{"a": float("nan")}, {"a": {1, 2}}, {1: 2}, {"a": (1, 2)}, {"a": np.int64(3)}, 7]
)
def test_parameters_that_json_cannot_say(tmp_path, params):
    with pytest.raises(InputError, match="parameters of the recommender 'x' cannot be stored"):
        save_model(tmp_path / "model", old_statistics(), {"x": RecommenderSpec("kind", params)})


def test_statistics_without_a_user_cannot_be_stored(tmp_path):
    with pytest.raises(InputError, match="without one of their users"):
        save_model(tmp_path / "model", old_statistics().without_user(0), {})


def test_statistics_of_the_wrong_make_cannot_be_stored(tmp_path):
    statistics = statistics_of([0, 1, 2], [2, 0], [1])
    statistics.interactions.times = statistics.interactions.times.astype(float)
    with pytest.raises(InputError, match=r"cannot be stored: times is float64 \(6,\), not int64"):
        save_model(tmp_path / "model", statistics, {})
    interactions = sr.Interactions.from_profiles([0, 1], [0])
    interactions.items = IdMap(pl.Series([1.5]), noun="item")
    with pytest.raises(InputError, match="items' ids are of type Float64, not integers or text"):
        save_model(tmp_path / "model", sr.count_precedence(interactions), {})


def test_a_full_disk(model, monkeypatch):
    before = contents(model)
    with monkeypatch.context() as patch:
        patch.setattr("shutil.disk_usage", lambda _: SimpleNamespace(free=99))
        full = r"cannot be written into .*model \(.* 99 bytes free\), and what was there stays"
        with pytest.raises(InputError, match=full):
            save_model(model, new_statistics(), {}, overwrite=True)
    assert contents(model) == before


def test_a_limit_on_file_sizes_is_like_a_full_disk(model):
    resource = pytest.importorskip("resource")
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (150, hard))
    try:
        with pytest.raises(InputError, match="make room there"):
            save_model(model, new_statistics(), {}, overwrite=True)
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert holds(model, old_statistics())
    assert_tidy(model)


@pytest.mark.parametrize("error", [OSError(errno.EIO, os.strerror(errno.EIO)), KeyboardInterrupt()])
def test_a_save_that_fails_at_any_sync_leaves_one_whole_model(tmp_path, monkeypatch, error):
    really_sync = os.fsync
    seen = set()
    for last in itertools.count():
        folder = tmp_path / str(last)
        save_model(folder, old_statistics(), {})
        left = iter(range(last))

        def sync(descriptor, left=left):
            if next(left, None) is None:
                raise error
            really_sync(descriptor)

        with monkeypatch.context() as patch:
            patch.setattr(os, "fsync", sync)
            try:
                save_model(folder, new_statistics(), {}, overwrite=True)
            except (InputError, KeyboardInterrupt):
                seen.add(holds(folder, new_statistics()) or not holds(folder, old_statistics()))
            else:
                break
        assert not list(folder.glob("*.part"))
    assert last > 8
    assert seen == {True, False}  # the folder's own syncs come after the new manifest
    assert_tidy(folder)


def test_a_first_save_that_fails_leaves_nothing(tmp_path, monkeypatch):
    def fail(_):
        raise OSError(errno.EIO, os.strerror(errno.EIO))

    monkeypatch.setattr(os, "fsync", fail)
    with pytest.raises(InputError, match=r"cannot be written into .*input/output error"):
        save_model(tmp_path / "model", old_statistics(), {})
    assert list(tmp_path.iterdir()) == []


def python(code, *arguments):
    """Run code beside us, with the test helpers at hand."""
    helpers = [str(Path(__file__).parents[2]), os.environ.get("PYTHONPATH", "")]
    return subprocess.Popen(  # noqa: S603
        [sys.executable, "-c", textwrap.dedent(code), *map(str, arguments)],
        env={**os.environ, "PYTHONPATH": os.pathsep.join(filter(None, helpers))},
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    )


def test_two_processes_saving_at_once_lose_nothing(tmp_path):
    code = """
        import sys
        from tests.storage.stored_models import MAIN, old_statistics
        from surerec.storage import save_model

        old_statistics()
        print("ready", flush=True)
        input()
        for i in range(20):
            save_model(sys.argv[1], old_statistics(), {f"{sys.argv[2]}-{i}": MAIN})
    """
    with python(code, tmp_path / "model", "a") as a, python(code, tmp_path / "model", "b") as b:
        for saver in (a, b):
            assert saver.stdout.readline() == "ready\n"
        for saver in (a, b):
            saver.stdin.write("go\n")
            saver.stdin.flush()
    assert (a.returncode, b.returncode) == (0, 0)
    names = {f"{name}-{i}" for name in "ab" for i in range(20)}
    assert set(load_model(tmp_path / "model").recommenders) == names
    assert_tidy(tmp_path / "model")


def test_readers_always_see_a_whole_model_while_others_replace_it(tmp_path):
    save_model(tmp_path / "model", old_statistics(), {})
    code = """
        import sys
        from tests.storage.stored_models import new_statistics, old_statistics
        from surerec.storage import save_model

        for _ in range(12):
            for statistics in (new_statistics(), old_statistics()):
                save_model(sys.argv[1], statistics, {}, overwrite=True)
    """
    names = []
    with python(code, tmp_path / "model") as saver:
        while saver.poll() is None:
            names.append(load_model(tmp_path / "model").card["data"]["name"])
    assert saver.returncode == 0
    assert set(names) == {"old", "new"}
    assert_tidy(tmp_path / "model")


def state_files(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith(("array-", "text-")))


def test_equal_states_are_one_file(tmp_path):
    one = np.arange(5)
    specs = {
        "a": RecommenderSpec("kind", {}, State({"x": one, "y": one.copy()}, {"t": "text"})),
        "b": RecommenderSpec("kind", {}, State({"z": one}, {"u": "text"})),
    }
    save_model(tmp_path, old_statistics(), specs)
    assert len(state_files(tmp_path)) == 2
    assert same(load_model(tmp_path).recommenders, specs)
    save_model(tmp_path, old_statistics(), {"a": OTHER})
    assert same(load_model(tmp_path).recommenders, {"a": OTHER, "b": specs["b"]})
    assert len(state_files(tmp_path)) == 2
    assert_tidy(tmp_path)


def test_replaced_states_go_and_shared_ones_stay(model):
    save_model(model, old_statistics(), {"learned": LEARNED})
    old = {path.name for path in state_files(model)}
    save_model(model, old_statistics(), {"learned": LEARNED_EARLIER})
    new = {path.name for path in state_files(model)}
    assert (len(new), len(old & new)) == (3, 1)  # both used the same
    assert same(load_model(model).recommenders, {"main": MAIN, "learned": LEARNED_EARLIER})
    assert_tidy(model)


@pytest.mark.parametrize(
    "part", ["", "A", "a-b", "a.b", "../a", "a/b", "ä", "1a", "a\n", "a" * 51, 7]
)
def test_names_that_no_state_can_have(tmp_path, part):
    for spec in (
        RecommenderSpec("kind", {}, State({part: np.ones(1)})),
        RecommenderSpec("kind", {}, State(texts={part: "text"})),
    ):
        with pytest.raises(InputError, match="cannot name an array or text of the recommender 'x'"):
            save_model(tmp_path / "model", old_statistics(), {"x": spec})
    assert not (tmp_path / "model").exists()


@pytest.mark.parametrize(
    ("array", "what"),
    [
        ([1, 2], "of type list, not a NumPy array"),
        (np.ma.masked_array([1, 2], [True, False]), "of type MaskedArray"),
        (np.array([print]), "array is object"),
        (np.array([1.0], dtype=">f8"), "array is float64"),
        (np.zeros(1, dtype=[("a", "f8")]), "array is void64"),
    ],
)
def test_arrays_that_cannot_be_stored(tmp_path, array, what):
    spec = RecommenderSpec("kind", {}, State({"a": array}))
    with pytest.raises(InputError, match=f"'a' in the arrays of the recommender 'x' .* {what}"):
        save_model(tmp_path / "model", old_statistics(), {"x": spec})
    assert not (tmp_path / "model").exists()


def test_texts_that_cannot_be_stored(tmp_path, monkeypatch):
    monkeypatch.setattr("surerec.storage._files.MOST_TEXT", 10)
    for text, what in (("ab\udcff", "surrogates not allowed"), ("ü" * 6, "12 bytes, more than 10")):
        spec = RecommenderSpec("kind", {}, State({}, {"t": text}))
        with pytest.raises(InputError, match=f"'t' in the texts of the recommender 'x' .*{what}"):
            save_model(tmp_path / "model", old_statistics(), {"x": spec})
