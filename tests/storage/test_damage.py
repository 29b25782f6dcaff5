import hashlib
import random
import shutil

import numpy as np
import pytest

from surerec.errors import InputError
from surerec.storage import load_model, read_card, save_model
from tests.storage.stored_models import (
    LEARNED,
    MAIN,
    flip,
    holds,
    new_statistics,
    old_statistics,
    reseal,
    statistics_of,
)

STRATEGIES = ["dense", "bounded", "on-demand"]


@pytest.fixture(params=STRATEGIES)
def model(request, tmp_path):
    statistics = statistics_of([0, 1, 2], [2, 0], [1], strategy=request.param, name="ünsere")
    save_model(tmp_path / "model", statistics, {"main": MAIN, "learned": LEARNED})
    return tmp_path / "model"


def test_every_flipped_byte_of_the_manifest_is_noticed(tmp_path):
    model = tmp_path / "model"
    save_model(model, old_statistics(), {"main": MAIN, "learned": LEARNED})
    path = model / "manifest.json"
    whole = path.read_bytes()
    chance = random.Random(1)
    for position in range(len(whole)):
        flip(path, position, chance.choice([chance.randrange(1, 256), 0x20]))
        with pytest.raises(InputError, match=r"damaged|newer|no surerec model"):
            read_card(model)
        path.write_bytes(whole)
    assert load_model(model)


def test_flipped_bytes_of_any_file_are_noticed(model):
    chance = random.Random(2)
    for path in [path for path in model.iterdir() if path.name != "manifest.json"]:
        whole = path.read_bytes()
        for position in [0, len(whole) - 1, *chance.choices(range(len(whole)), k=20)]:
            flip(path, position, chance.randrange(1, 256))
            with pytest.raises(InputError, match=f"damaged: {path.name} is not as it was saved"):
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
                InputError, match=rf"damaged: {path.name} (was|is)|no surerec model"
            ):
                load_model(model, verify=verify)
        path.unlink()
        with pytest.raises(InputError, match=rf"{path.name} is missing|no complete model"):
            load_model(model, verify=verify)
        path.write_bytes(whole)
    assert load_model(model, verify=verify)


@pytest.mark.parametrize("sealed", [True, False])
def test_a_newer_format_asks_for_an_upgrade(model, sealed):
    path = model / "manifest.json"
    if sealed:
        reseal(model, lambda card: card.update(format_version=7, shape="new"))
    else:
        path.write_text('{"format": "surerec-model", "format_version": 7}')
    before = path.read_bytes()
    newer = r"model was written by a newer surerec \(format 7, and this one reads 6\); upgrade"
    for question in (load_model, read_card):
        with pytest.raises(InputError, match=newer):
            question(model)
    with pytest.raises(InputError, match=newer):
        save_model(model, old_statistics(), {}, overwrite=True)
    assert path.read_bytes() == before


@pytest.mark.parametrize(
    "content", ["{}", "[]", "null", '{"format": "zarr"}', "", "\0\xff", "[" * 100_000, "NaN"]
)
def test_a_manifest_of_another_program(model, content):
    (model / "manifest.json").write_text(content)
    with pytest.raises(
        InputError, match=r"no surerec model, for another program wrote its manifest"
    ):
        load_model(model)


def test_folders_without_a_model(tmp_path, write):
    with pytest.raises(InputError, match=r"There is no folder .*gone"):
        load_model(tmp_path / "gone")
    with pytest.raises(InputError, match=r"no surerec model, for it has no manifest\.json"):
        read_card(tmp_path)
    with pytest.raises(InputError, match="is a file; name the folder"):
        load_model(write("model", "x"))
    with pytest.raises(InputError, match="There is no folder"):
        load_model(tmp_path / "model" / "inside")


CHANGES = [
    lambda card: card.update(extra=1),
    lambda card: card.pop("counts"),
    lambda card: card.update(format_version="1"),
    lambda card: card["counts"].update(items=True),
    lambda card: card["counts"].update(items=2**62),
    lambda card: card["counts"].update(users=-1),
    lambda card: card["settings"].update(rows="sparse"),
    lambda card: card["settings"].update(ties="never"),
    lambda card: card.update(data=None),
    lambda card: card.update(recommenders={"../x": {"kind": "k", "params": {}}}),
    lambda card: card.update(recommenders={"x": {"kind": "k"}}),
    lambda card: card.update(files={}),
    lambda card: card.update(files={"../../etc/passwd": {"bytes": 1, "sha256": "0" * 64}}),
    lambda card: card["files"].update({"x": {"bytes": 1, "sha256": "0" * 64}}),
    lambda card: card["files"].update({"/etc/passwd": {"bytes": 1, "sha256": "0" * 64}}),
]


@pytest.mark.parametrize("change", CHANGES)
def test_a_sealed_manifest_that_makes_no_sense(model, change):
    reseal(model, change)
    with pytest.raises(InputError, match="is damaged"):
        load_model(model)


def test_links_are_not_followed(model, tmp_path):
    for path in list(model.iterdir()):
        outside = tmp_path / path.name
        shutil.move(path, outside)
        path.symlink_to(outside)
        with pytest.raises(InputError, match=f"{path.name} is a link"):
            load_model(model)
        path.unlink()
        shutil.move(outside, path)
    assert load_model(model)


def test_pickled_objects_are_never_loaded(tmp_path):
    folder = tmp_path / "model"
    save_model(folder, old_statistics(), {})
    path = next(folder.glob("times-*"))
    np.save(path, np.array([print] * 4, dtype=object), allow_pickle=True)
    reseal(folder, lambda card: card["files"][path.name].update(bytes=path.stat().st_size))
    with pytest.raises(InputError, match="is damaged: times"):
        load_model(folder, verify=False)


def test_a_model_replaced_while_it_is_opened_is_opened_anew(tmp_path, monkeypatch):
    folder = tmp_path / "model"
    save_model(folder, old_statistics(), {})

    def replaced_first(path, _):
        monkeypatch.undo()
        save_model(folder, new_statistics(), {}, overwrite=True)
        return hashlib.sha256(path.read_bytes()).hexdigest()

    monkeypatch.setattr("surerec.storage._folder.digest", replaced_first)
    assert holds(folder, new_statistics())


def test_a_folder_that_may_not_be_read(model, monkeypatch):
    def refuse(*_):
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("pathlib.Path.read_bytes", refuse)
    with pytest.raises(InputError, match=r"cannot be read \(permission denied\)"):
        load_model(model)
