"""Small models to store, and helpers that compare and forge them."""

import json
import mmap
from functools import cache

import numpy as np

import surerec as sr
from fuzz.forging import seal
from surerec.measures import State
from surerec.storage import RecommenderSpec, load_model

MAIN = RecommenderSpec("inductive", {"measure": "CM12", "alpha": 0.1, "limits": [1, None]})
OTHER = RecommenderSpec("mining", {"top": 3})
_USED = np.array([[True], [False]])
LEARNED = RecommenderSpec(
    "learned",
    {"rounds": 2},
    State({"thresholds": np.array([0.25, np.nan]), "used": _USED}, {"trees": "tree\r\nü\n"}),
)
LEARNED_EARLIER = RecommenderSpec(
    "learned",
    {"rounds": 1},
    State({"thresholds": np.array([0.5, 1.5, 2.5]), "used": _USED}, {"trees": "stump\n"}),
)


def statistics_of(*profiles, ties="order", strategy="dense", **about):
    """Count profiles of integers."""
    offsets = np.cumsum([0] + [len(profile) for profile in profiles])
    consumed = [item for profile in profiles for item in profile]
    n_items = max(consumed, default=-1) + 1
    interactions = sr.Interactions.from_profiles(
        offsets, consumed, item_ids=[f"item {i}" for i in range(n_items)], **about
    )
    return sr.count_precedence(interactions, ties=ties, strategy=strategy)


@cache
def old_statistics():
    return statistics_of([0, 1, 2], [2, 0], [1], name="old")


@cache
def new_statistics():
    return statistics_of([0, 1, 2, 3], [3, 0], [2, 1], name="new")


def assert_same(loaded, saved):
    """Ask both everything that statistics can be request."""
    for name in ("n_users", "n_items", "ties"):
        assert getattr(loaded, name) == getattr(saved, name)
    assert_same_rows(loaded, saved)
    assert_same_interactions(loaded.interactions, saved.interactions)
    for user in range(saved.interactions.n_users):
        assert_same_rows(loaded.without_user(user), saved.without_user(user))


def assert_same_rows(loaded, saved):
    np.testing.assert_array_equal(loaded.support, saved.support)
    for item in range(saved.n_items):
        np.testing.assert_array_equal(loaded.followers(item), saved.followers(item))
        np.testing.assert_array_equal(loaded.predecessors(item), saved.predecessors(item))


def assert_same_interactions(loaded, saved):
    for name in ("name", "origin", "rows_read"):
        assert getattr(loaded, name) == getattr(saved, name)
    for mine, theirs in ((loaded.users, saved.users), (loaded.items, saved.items)):
        assert (mine.ids.dtype, mine.noun) == (theirs.ids.dtype, theirs.noun)
        assert mine.ids.to_list() == theirs.ids.to_list()
        assert [mine.code(i) for i in theirs.ids] == list(range(len(theirs)))
    for name in ("offsets", "item_codes", "times"):
        mine, theirs = getattr(loaded, name), getattr(saved, name)
        assert mine.dtype == theirs.dtype
        np.testing.assert_array_equal(mine, theirs)
    for name in ("titles", "genres"):
        mine, theirs = getattr(loaded, name), getattr(saved, name)
        assert (mine is None) == (theirs is None)
        assert theirs is None or mine.to_list() == theirs.to_list()


def holds(folder, statistics):
    """Return whether a folder holds a whole model of these statistics."""
    model = load_model(folder)
    same = model.card["data"]["name"] == statistics.interactions.name
    if same:
        assert_same_rows(model.statistics, statistics)
    return same


def same(found, expected):
    """Return whether recommenders by name are equal, with all arrays and texts."""

    def plain(spec):
        arrays = {
            name: (array.dtype, array.shape, array.tobytes())
            for name, array in spec.state.arrays.items()
        }
        return spec.kind, spec.params, dict(spec.state.texts), arrays

    return {n: plain(each) for n, each in found.items()} == {
        n: plain(each) for n, each in expected.items()
    }


def is_mapped(array):
    """Return whether an array lies in a mapped file."""
    while array is not None:
        if isinstance(array, mmap.mmap):
            return True
        array = getattr(array, "base", None) if not isinstance(array, memoryview) else array.obj
    return False


def flip(path, position, bits):
    """Damage one byte of a file."""
    content = bytearray(path.read_bytes())
    content[position] ^= bits
    path.write_bytes(content)


def forge(folder, change):
    """Change a manifest and seal it again."""
    card = json.loads((folder / "manifest.json").read_text())
    del card["sha256"]
    found = change(card)
    seal(folder, card)
    return found


def assert_tidy(folder):
    """Assert that the folder holds only the manifest and its files."""
    names = {path.name for path in folder.iterdir()}
    assert names == {"manifest.json", *load_model(folder).card["files"]}
