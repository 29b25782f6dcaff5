"""The arrays and texts that recommenders keep beside the statistics."""

import os
import random
import struct
from tempfile import TemporaryDirectory

import hypothesis.extra.numpy as hnp
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from surerec.errors import InputError
from surerec.measures import State
from surerec.storage import RecommenderSpec, file_name, load_model, read_card, save_model
from surerec.storage._files import Content
from tests.storage.stored_models import (
    LEARNED,
    LEARNED_EARLIER,
    MAIN,
    OTHER,
    assert_tidy,
    flip,
    is_mapped,
    old_statistics,
    reseal,
    same,
)

TYPES = ["?", "i1", "i2", "i4", "i8", "u1", "u2", "u4", "u8", "f4", "f8"]
names = st.from_regex(r"[a-z][a-z0-9_]{0,9}", fullmatch=True)
shapes = hnp.array_shapes(min_dims=0, max_dims=4, min_side=0, max_side=4)
arrays = st.sampled_from(TYPES).flatmap(lambda kind: hnp.arrays(np.dtype(kind), shapes))
texts = st.text(st.characters(codec="utf-8")) | st.sampled_from(["", "\r\n", "a\rb\n", "\ufeff"])


def part_files(folder):
    return sorted(path for path in folder.iterdir() if path.name.startswith(("array-", "text-")))


@pytest.fixture
def model(tmp_path):
    save_model(tmp_path / "model", old_statistics(), {"main": MAIN, "learned": LEARNED})
    return tmp_path / "model"


@settings(max_examples=60)
@given(
    st.dictionaries(names, arrays, max_size=3),
    st.dictionaries(names, texts, max_size=3),
    st.booleans(),
)
def test_parts_come_back_as_they_were(arrays, texts, verify):
    spec = RecommenderSpec("learned", {"a": 1}, State(arrays, texts))
    with TemporaryDirectory() as folder:
        save_model(folder, old_statistics(), {"learned": spec, "main": MAIN})
        found = load_model(folder, verify=verify).recommenders
        assert same(found, {"learned": spec, "main": MAIN})
        for part, array in found["learned"].state.arrays.items():
            assert type(array) is np.ndarray
            assert (array.dtype, array.shape) == (arrays[part].dtype, arrays[part].shape)
            assert array.tobytes() == arrays[part].tobytes()
            assert array.flags.c_contiguous
            assert not array.flags.writeable
            assert is_mapped(array)
        before = read_card(folder)["files"]
        save_model(folder, old_statistics(), {"again": found["learned"]})
        assert read_card(folder)["files"] == before


def test_equal_parts_are_one_file(tmp_path):
    one = np.arange(5)
    specs = {
        "a": RecommenderSpec("kind", {}, State({"x": one, "y": one.copy()}, {"t": "text"})),
        "b": RecommenderSpec("kind", {}, State({"z": one}, {"u": "text"})),
    }
    save_model(tmp_path, old_statistics(), specs)
    assert len(part_files(tmp_path)) == 2
    assert same(load_model(tmp_path).recommenders, specs)
    save_model(tmp_path, old_statistics(), {"a": OTHER})
    assert same(load_model(tmp_path).recommenders, {"a": OTHER, "b": specs["b"]})
    assert len(part_files(tmp_path)) == 2
    assert_tidy(tmp_path)


def test_replaced_parts_go_and_shared_ones_stay(model):
    old = {path.name for path in part_files(model)}
    save_model(model, old_statistics(), {"learned": LEARNED_EARLIER})
    new = {path.name for path in part_files(model)}
    assert len(new) == 3
    assert len(old & new) == 1  # both used the same
    assert same(load_model(model).recommenders, {"main": MAIN, "learned": LEARNED_EARLIER})
    assert_tidy(model)


@pytest.mark.parametrize("version", [1, 5])
def test_an_older_folder_gets_one_sentence(model, version):
    reseal(model, lambda card: card.update(format_version=version))
    with pytest.raises(InputError, match=rf"earlier surerec \(format {version}\): refit it"):
        load_model(model)


def test_in_a_hurry_texts_are_compared_but_arrays_are_not(model):
    array, text = next(model.glob("array-*")), next(model.glob("text-*"))
    flip(array, -1, 1)
    assert load_model(model, verify=False)
    whole = text.read_bytes()
    text.write_bytes(b"x" * len(whole))
    with pytest.raises(InputError, match=rf"damaged: {text.name} is not as it was saved"):
        load_model(model, verify=False)
    os.truncate(text, 2)
    with pytest.raises(InputError, match=rf"damaged: {text.name} was truncated to 2 of"):
        load_model(model, verify=False)


def test_any_flipped_byte_of_a_part_gives_a_sentence_or_an_answer_in_a_hurry(model):
    chance = random.Random(3)
    for path in part_files(model):
        whole = path.read_bytes()
        for position in range(len(whole)):
            flip(path, position, chance.randrange(1, 256))
            try:
                load_model(model, verify=False)
            except InputError as error:
                assert f"damaged: {path.name} is not as it was saved" in str(error)  # noqa: PT017
            with pytest.raises(InputError, match=f"damaged: {path.name} is not as it was saved"):
                load_model(model)
            path.write_bytes(whole)
    assert load_model(model)


RECORD = {"bytes": 1, "sha256": "0" * 64}
NOWHERE = "array-0000000000000000.npy"


def learned(card):
    return card["recommenders"]["learned"]


def swap_files(card):
    parts = learned(card)
    (text,) = parts["texts"].values()
    parts["arrays"]["used"] = text


HOSTILE = [
    lambda card: learned(card)["arrays"].update(thresholds="../../../etc/passwd"),
    lambda card: learned(card)["arrays"].update(thresholds="/etc/passwd"),
    lambda card: learned(card)["texts"].update(trees="/etc/passwd"),
    lambda card: learned(card)["texts"].update(trees="text-/../../../../etc/passwd"),
    lambda card: learned(card)["texts"].update(trees="manifest.json"),
    lambda card: learned(card)["texts"].update(trees=None),
    lambda card: learned(card)["texts"].update(trees=["text-0000000000000000.txt"]),
    lambda card: learned(card)["arrays"].update(thresholds=NOWHERE),
    lambda card: learned(card)["arrays"].update({"../x": learned(card)["arrays"]["used"]}),
    lambda card: learned(card)["arrays"].update({"": learned(card)["arrays"]["used"]}),
    lambda card: learned(card)["arrays"].update(
        used=next(name for name in card["files"] if name.startswith("times"))
    ),
    swap_files,
    lambda card: learned(card)["arrays"].pop("used"),
    lambda card: learned(card).pop("texts"),
    lambda card: learned(card).update(arrays=[], texts=[]),
    lambda card: learned(card).update(more={}),
    lambda card: card["recommenders"]["main"].pop("arrays"),
    lambda card: card["files"].pop(learned(card)["texts"]["trees"]),
    lambda card: card["files"].update({NOWHERE: RECORD}),
    lambda card: card["files"].update({"text-0000000000000000.npy": RECORD}),
    lambda card: card["files"].update({"text-/etc/passwd": RECORD}),
    lambda card: card["files"][learned(card)["texts"]["trees"]].update(bytes=2**31),
]


@pytest.mark.parametrize("change", HOSTILE)
@pytest.mark.parametrize("verify", [True, False])
def test_a_sealed_manifest_with_strange_parts(model, change, verify):
    reseal(model, change)
    with pytest.raises(InputError, match=r"damaged: manifest\.json is not as it was saved"):
        load_model(model, verify=verify)


def replace_part(folder, field, part, content):
    """Put another file behind a part, with a right checksum, as a hostile hand could."""
    checksum = content.sha256
    name = file_name(content.role, checksum)

    def change(card):
        del card["files"][learned(card)[field][part]]
        learned(card)[field][part] = name
        card["files"][name] = {"bytes": content.size, "sha256": checksum}

    reseal(folder, change)
    (folder / name).write_bytes(b"".join(content.parts))
    return name


def with_header(header):
    text = header.encode() + b"\n"
    start = b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text))
    return Content("array", (memoryview(start + text + bytes(64)),))


def described(kind, shape="(2,)", order="False"):
    return with_header(f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}}}")


@pytest.mark.parametrize(
    "content",
    [
        described("'<f8'", "(2, 3)", "True"),
        described("'<f8'", "(-1,)"),
        described("'<f8'", "(9,)"),
        described("'<f8'", "(True,)"),
        described("'<f8'", "(9223372036854775807, 2)"),
        described("'<f8'", "(0, 99999999999999999999)"),
        described("'<f8'", "(" + "-" * 3000 + "1,)"),
        described("'>f8'"),
        described("'<f2'"),
        described("'<c16'"),
        described("'|O'"),
        described("'<U2'"),
        described("'<M8[s]'"),
        described("'f8,,f'"),
        described("[('a', '<f8')]"),
        described("{}"),
        with_header("(" * 9000),
        with_header("-" * 9000 + "1"),
        with_header("1+" * 4000 + "1"),
        with_header("\0"),
        Content("array", (memoryview(b"cos\nsystem\n(S'true'\ntR."),)),
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_arrays_that_no_recommender_has_saved(model, content, verify):
    name = replace_part(model, "arrays", "thresholds", content)
    with pytest.raises(InputError, match=f"damaged: {name} is not as it was saved"):
        load_model(model, verify=verify)


def test_bytes_that_are_no_text(model):
    name = replace_part(model, "texts", "trees", Content("text", (memoryview(b"tree \xff"),)))
    with pytest.raises(InputError, match=f"damaged: {name} is not as it was saved"):
        load_model(model)


@pytest.mark.parametrize(
    "part", ["", "A", "a-b", "a.b", "../a", "a/b", "ä", "1a", "a\n", "a" * 51, 7]
)
def test_names_that_no_part_can_have(tmp_path, part):
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
