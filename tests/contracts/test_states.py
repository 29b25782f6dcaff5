"""Saved states of every component are checked when they are read."""

from functools import cache

import numpy as np
import pytest
from scipy.sparse import csr_matrix

import surerec as sr
from surerec.adapters import ItemItem
from surerec.measures import State
from surerec.measures.learned import LearnedModel
from surerec.recommenders import to_spec
from tests.contracts.support import DATA, FUTURE, NEW, OF_ITEMS, PAST, SEGMENTS, WRAPPED


@cache
def population():
    model = sr.PopulationConformal("CM12", segments="parity")
    lists = {"some": DATA.items.ids[:40], "more": DATA.items.ids[:50]}
    return model.fit(DATA, user_segments=SEGMENTS, item_lists=lists).calibrate_groups(2)


@cache
def learned():
    counts, components = sr.count_precedence(DATA), ["past to future", "matrix factorisation"]
    trees = LearnedModel.train(counts, n_users=100, n_folds=3, components=components)
    return sr.InductiveConformal(trees).fit(counts)


@cache
def factors():
    model, ids = WRAPPED["wrapped factors (matrix factorisation)"]
    return sr.wrap(model, **ids).calibrate(PAST, FUTURE)


@cache
def weights():
    near = ItemItem(csr_matrix(np.triu(OF_ITEMS @ OF_ITEMS.T)))
    return sr.wrap(near, **NEW).calibrate(PAST, FUTURE)


MODELS = {population: ("calibration_", "groups_"), learned: ("scorer_",)}
MODELS |= {factors: ("scorer_", "wrapped_"), weights: ("scorer_model_",)}
FLOATS = ("ridge", "forward_inverse", "forward_weights", "base")
INTEGERS = ("n_before", "n_known", "n_candidates", "period", "begin", "counts", "rows")
INTEGERS += ("size0_items", "places")


def restore(model, state):
    """Return the model of a state, as `load` does."""
    return type(model)(**to_spec(model).params)._restore(model.statistics_, state)


def wrong(name, array):
    """Return an array in forms that no model has; some arrays may hold any number."""
    found = [np.zeros_like(array, dtype=np.uint8), array[None], array.ravel()[:-1]]
    if array.dtype.kind == "f" and not name.endswith(FLOATS):
        found.append(np.full_like(array, np.nan))
    if array.dtype.kind == "i" and not name.endswith(INTEGERS):
        found += [np.full_like(array, -9), np.full_like(array, np.iinfo(array.dtype).max)]
    return found


@pytest.mark.parametrize("make", MODELS)
def test_arrays_and_texts_are_there_and_have_their_form(make):
    state = to_spec(make()).state
    restore(make(), state)
    for name in [*state.arrays, *state.texts]:
        if not name.startswith(MODELS[make]):
            continue
        without = State(*({n: v for n, v in each.items() if n != name} for each in state))
        if name in state.arrays:
            changed = [State({name: each}) for each in wrong(name, state.arrays[name])]
        else:
            changed = [State(texts={name: text}) for text in ("[]", "{")]
        for forged in (without, *(without | each for each in changed)):
            with pytest.raises((KeyError, ValueError, sr.InputError)):
                restore(make(), forged)


@pytest.mark.parametrize(
    ("name", "change"),
    [
        ("calibration_probabilities_weights", lambda array: -1 - array),
        ("calibration_probabilities_edges", lambda array: array[::-1]),
        ("calibration_probabilities_hits", lambda array: array + 10_000),
        ("calibration_probabilities_chooses", np.ones_like),
        ("calibration_probabilities_hit_ranks", lambda array: -array),
        ("calibration_probabilities_begin", lambda array: array - 9),
        ("list0_list_codes", lambda array: array[::-1]),
        ("list0_list_codes", lambda array: array[:0]),
        ("list0_list_codes", lambda array: array + 60),
        ("list0_users", lambda array: array + 400),
    ],
)
def test_values_are_consistent(name, change):
    state = to_spec(population()).state
    forged = state | State({name: change(state.arrays[name])})
    with pytest.raises(
        ValueError,
        match=r"of probabilities|inconsistent|of an item list|is not sorted|users of a calibration",
    ):
        restore(population(), forged)


@pytest.mark.parametrize(
    ("name", "why"), [("some", "lack names or share one"), ("in stock", "is not a valid name")]
)
def test_item_lists_need_names_of_their_own(name, why):
    forged = to_spec(population()).state | State(texts={"list1_list_name": name})
    with pytest.raises(ValueError, match=why):
        restore(population(), forged)
