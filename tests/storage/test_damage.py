"""Damaged folders and malicious files raise InputError and do not crash."""

import hashlib
import random
import shutil
import struct
from contextlib import suppress

import pytest

from fuzz.forging import replace_file
from surerec.errors import InputError
from surerec.storage import load_model, read_card, save_model
from tests.storage.stored_models import (
    LEARNED,
    MAIN,
    flip,
    forge,
    holds,
    new_statistics,
    old_statistics,
    statistics_of,
)

GONE = object()
RECORD = {"bytes": 1, "sha256": "0" * 64}
NO_TEXT = b"tree \xff"
NOWHERE = "array-0000000000000000.npy"


@pytest.fixture(params=["dense", "bounded"])
def model(request, tmp_path):
    statistics = statistics_of([0, 1, 2], [2, 0], [1], strategy=request.param, name="ünsere")
    save_model(tmp_path / "model", statistics, {"main": MAIN, "learned": LEARNED})
    return tmp_path / "model"


@pytest.fixture
def dense(tmp_path):
    save_model(tmp_path / "model", old_statistics(), {"main": MAIN, "learned": LEARNED})
    return tmp_path / "model"


def setting(value, *keys):
    """Return a change of the value at some keys, or its removal."""

    def change(card):
        for key in keys[:-1]:
            card = card[key]
        if value is GONE:
            del card[keys[-1]]
        else:
            card[keys[-1]] = value

    return change


def test_every_flipped_byte_of_the_manifest_is_noticed(dense):
    path = dense / "manifest.json"
    whole = path.read_bytes()
    rng = random.Random(1)
    for position in range(len(whole)):
        flip(path, position, rng.choice([rng.randrange(1, 256), 0x20]))
        with pytest.raises(InputError, match=r"damaged|newer|earlier|no surerec model"):
            read_card(dense)
        path.write_bytes(whole)
    assert load_model(dense)


def test_flipped_bytes_of_any_file_are_noticed(model):
    rng = random.Random(2)
    for path in [path for path in model.iterdir() if path.name != "manifest.json"]:
        whole = path.read_bytes()
        for position in [0, len(whole) - 1, *rng.choices(range(len(whole)), k=20)]:
            flip(path, position, rng.randrange(1, 256))
            with suppress(InputError):  # without verification, loading may succeed
                load_model(model, verify=False)
            with pytest.raises(InputError, match=f"damaged: {path.name} has changed since"):
                load_model(model)
            path.write_bytes(whole)
    assert load_model(model)


@pytest.mark.parametrize("verify", [True, False])
def test_truncated_grown_and_missing_files_are_noticed(model, verify):
    for path in list(model.iterdir()):
        whole = path.read_bytes()
        for changed in (b"", whole[:-1], whole + b"\n"):
            path.write_bytes(changed)
            with pytest.raises(
                InputError, match=rf"damaged: {path.name} (was|has)|no surerec model"
            ):
                load_model(model, verify=verify)
        path.unlink()
        with pytest.raises(InputError, match=rf"{path.name} is missing|incomplete model"):
            load_model(model, verify=verify)
        path.write_bytes(whole)
    assert load_model(model, verify=verify)


def test_without_verify_texts_are_compared_but_arrays_are_not(dense):
    array, text = next(dense.glob("array-*")), next(dense.glob("text-*"))
    flip(array, -1, 1)
    assert load_model(dense, verify=False)
    text.write_bytes(b"x" * text.stat().st_size)
    with pytest.raises(InputError, match=rf"damaged: {text.name} has changed since it was saved"):
        load_model(dense, verify=False)


@pytest.mark.parametrize(
    ("version", "word"), [(7, "a newer"), (1, "an earlier"), (5, "an earlier")]
)
def test_another_format_is_refused_with_what_to_do(dense, version, word):
    path = dense / "manifest.json"
    for change in (
        lambda: forge(dense, lambda card: card.update(format_version=version, shape="new")),
        lambda: path.write_text(f'{{"format": "surerec-model", "format_version": {version}}}'),
    ):
        change()
        before = path.read_bytes()
        says = rf"by {word} surerec \(format {version}; .* reads format 6\). Upgrade .*, or refit"
        for question in (load_model, read_card):
            with pytest.raises(InputError, match=says):
                question(dense)
        with pytest.raises(InputError, match=says):
            save_model(dense, old_statistics(), {}, overwrite=True)
        assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", ["{}", "[]", "null", '{"format": "zarr"}', "", "\0\xff", "[" * 100_000, "NaN"]
)
def test_a_manifest_of_another_program(dense, content):
    (dense / "manifest.json").write_text(content)
    with pytest.raises(
        InputError, match=r"no surerec model: its manifest\.json is from another program"
    ):
        load_model(dense)


def test_folders_without_a_model(tmp_path, write):
    with pytest.raises(InputError, match=r"There is no folder .*gone"):
        load_model(tmp_path / "gone")
    with pytest.raises(InputError, match=r"no surerec model \(no manifest\.json\)"):
        read_card(tmp_path)
    with pytest.raises(InputError, match="is a file, not a model folder"):
        load_model(write("model", "x"))
    with pytest.raises(InputError, match="There is no folder"):
        load_model(tmp_path / "model" / "inside")


LEARNED_AT = ("recommenders", "learned")
CHANGES = [
    setting(1, "extra"),
    setting(GONE, "counts"),
    setting("1", "format_version"),
    setting(True, "counts", "items"),
    setting(2**62, "counts", "items"),
    setting("sparse", "settings", "rows"),
    setting("never", "settings", "ties"),
    setting(None, "data"),
    setting({"../x": {"kind": "k", "params": {}, "arrays": {}, "texts": {}}}, "recommenders"),
    setting({}, "files"),
    setting(RECORD, "files", "../../etc/passwd"),
    setting(RECORD, "files", "text-/etc/passwd"),
    setting(RECORD, "files", NOWHERE),
    setting("../../../etc/passwd", *LEARNED_AT, "arrays", "thresholds"),
    setting("text-/../../../../etc/passwd", *LEARNED_AT, "texts", "trees"),
    setting(NOWHERE, *LEARNED_AT, "arrays", "thresholds"),
    setting(GONE, *LEARNED_AT, "arrays", "used"),
    setting(GONE, *LEARNED_AT, "texts"),
    lambda card: setting(GONE, "files", learned(card)["texts"]["trees"])(card),
    lambda card: card["files"][learned(card)["texts"]["trees"]].update(bytes=2**31),
    lambda card: learned(card)["arrays"].update({"../x": learned(card)["arrays"]["used"]}),
    lambda card: learned(card)["arrays"].update(used=learned(card)["texts"]["trees"]),
    lambda card: learned(card)["arrays"].update(
        used=next(name for name in card["files"] if name.startswith("times"))
    ),
]


def learned(card):
    return card["recommenders"]["learned"]


@pytest.mark.parametrize("change", CHANGES)
@pytest.mark.parametrize("verify", [True, False])
def test_forged_manifests_are_refused(dense, change, verify):
    forge(dense, change)
    with pytest.raises(InputError, match="is damaged"):
        load_model(dense, verify=verify)


def test_links_are_not_followed(dense, tmp_path):
    for path in list(dense.iterdir()):
        outside = tmp_path / path.name
        shutil.move(path, outside)
        path.symlink_to(outside)
        with pytest.raises(InputError, match=f"{path.name} is a link"):
            load_model(dense)
        path.unlink()
        shutil.move(outside, path)
    assert load_model(dense)


def with_header(header):
    text = header.encode() + b"\n"
    return b"\x93NUMPY\x01\x00" + struct.pack("<H", len(text)) + text + bytes(64)


def described(kind, shape="(2,)", order="False"):
    return with_header(f"{{'descr': {kind}, 'fortran_order': {order}, 'shape': {shape}}}")


@pytest.mark.parametrize(
    "content",
    [
        described("'<f8'", "(2, 3)", "True"),
        described("'<f8'", "(-1,)"),
        described("'<f8'", "(9,)"),
        described("'<f8'", "(9223372036854775807, 2)"),
        described("'<f8'", "(0, 99999999999999999999)"),
        described("'<f8'", "(" + "-" * 3000 + "1,)"),
        described("'>f8'"),
        described("'|O'"),
        described("[('a', '<f8')]"),
        with_header("(" * 9000),
        with_header("\0"),
        b"cos\nsystem\n(S'true'\ntR.",
        NO_TEXT,
    ],
)
@pytest.mark.parametrize("verify", [True, False])
def test_forged_states_are_refused(dense, content, verify):
    kind, key = ("texts", "trees") if content == NO_TEXT else ("arrays", "thresholds")

    def change(card):
        """Replace the file of a state, with a valid checksum."""
        replace_file(dense, card, learned(card)[kind][key], content)
        return learned(card)[kind][key]

    name = forge(dense, change)
    with pytest.raises(InputError, match=f"damaged: {name} has changed since it was saved"):
        load_model(dense, verify=verify)


def test_a_model_replaced_during_loading_is_loaded_again(dense, monkeypatch):

    def replaced_first(path, _):
        monkeypatch.undo()
        save_model(dense, new_statistics(), {}, overwrite=True)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr("surerec.storage._folder.digest", replaced_first)
    assert holds(dense, new_statistics())


def test_a_folder_without_read_permission(dense, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(permission denied\)"):
        load_model(dense)
