"""``surerec serve`` and ``surerec keys``, as a person types them."""

import inspect
import os
import socket
import subprocess
import sys

import pytest

from surerec.cli._serve import serve
from surerec.serving import ServerSettings
from tests.serving.serving_server import save_without_scorer


@pytest.fixture
def taken_port():
    with socket.create_server(("127.0.0.1", 0)) as listener:
        yield str(listener.getsockname()[1])


def test_every_setting_has_its_flag_and_every_flag_its_setting():
    assert list(inspect.signature(serve).parameters) == list(ServerSettings.model_fields)
    for field in ServerSettings.model_fields.values():
        assert field.description


@pytest.mark.parametrize(
    ("options", "says"),
    [
        (["--host", "0.0.0.0"], "API keys are needed"),  # noqa: S104
        (["--host", "192.0.2.1", "--keys", "no.json"], "There is no key file no.json"),
        (["--host", "no.such.host.example", "--keys", "KEYS"], "Cannot listen on"),
        (["--host", "192.0.2.1", "--keys", "KEYS"], "Cannot listen on"),
        (["--keys", "KEYS", "--insecure-admin"], "--insecure-admin works without --keys only"),
        (["--port", "99999"], "--port (SUREREC_SERVE_PORT) is 99999"),
        (["--workers", "0"], "--workers (SUREREC_SERVE_WORKERS) is 0"),
        (["--log-level", "loud"], "--log-level (SUREREC_SERVE_LOG_LEVEL) is 'loud'"),
        (["--cors-origins", "shop"], "an origin looks like https://shop.example"),
    ],
)
def test_settings_that_cannot_be_used_are_a_sentence_and_exit_code_2(
    cli, model_folder, tmp_path, options, says
):
    cli("keys", "create", tmp_path / "KEYS", "--name", "x")
    options = [str(tmp_path / "KEYS") if option == "KEYS" else option for option in options]
    done = cli("serve", model_folder, *options)
    assert (done.code, done.out) == (2, "")
    assert says in done.err
    assert done.err.count("\n") == 1


def test_a_port_in_use_is_a_sentence(cli, model_folder, taken_port):
    done = cli("serve", model_folder, "--port", taken_port)
    assert done.code == 2
    assert f"Cannot listen on 127.0.0.1, port {taken_port} (Address already in use)" in done.err
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ  # its folder is gone


def test_a_missing_or_damaged_model_is_a_sentence(cli, tmp_path):
    done = cli("serve", tmp_path / "nowhere", "--port", "0")
    assert done.code == 2
    assert "There is no folder" in done.err
    (tmp_path / "manifest.json").write_text('{"format": "surerec-model"')
    done = cli("serve", tmp_path, "--port", "0")
    assert done.code == 2
    assert "is damaged" in done.err
    assert done.err.count("\n") == 1


def test_a_model_without_its_scorer_is_a_sentence(cli, tmp_path):
    done = cli("serve", save_without_scorer(tmp_path / "own"), "--port", "0")
    assert (done.code, done.out) == (2, "")
    assert "was saved without its scorer (ByCode)" in done.err
    assert done.err.count("\n") == 1


def test_without_the_extra_one_sentence_says_what_to_install(model_folder):
    code = (
        "import sys; sys.modules['pydantic_settings'] = None; "
        f"sys.argv = ['surerec', 'serve', {str(model_folder)!r}]; "
        "from surerec.cli import main; main()"
    )
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-c", code], capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "pip install 'surerec[serve]'" in done.stderr
    assert "Traceback" not in done.stderr


def test_keys_are_made_listed_and_revoked(cli, tmp_path):
    file = tmp_path / "keys.json"
    key = cli("keys", "create", file, "--name", "shop [x]", "--scope", "admin").out.strip()
    assert key.startswith("sr_")
    listed = cli("keys", "list", file).out
    key_id = key.split("_")[1]
    assert key_id in listed
    assert "shop [x]" in listed
    assert "admin" in listed
    assert key not in listed
    assert cli("keys", "revoke", file, key_id).code == 0
    again = cli("keys", "revoke", file, key_id)
    assert again.code == 2
    assert "there is no key" in again.err
    assert cli("keys", "create", file, "--name", "x", "--scope", "root").code == 2
    assert cli("keys", "create", tmp_path / "no" / "keys", "--name", "x").code == 2
    file.write_text("[]")
    assert "damaged" in cli("keys", "list", file).err


@pytest.mark.parametrize("file", ["", ".", "/proc/keys.json", "/proc/self/mem", "/dev/zero"])
def test_keys_where_no_file_can_be_are_refused_in_a_sentence(cli, file):
    for asked in (["revoke", file, ""], ["list", file], ["create", file, "--name", "x"]):
        told = cli("keys", *asked)
        assert told.code == 2
        assert told.err.startswith("Error: ")
        assert told.err.count("\n") == 1


def test_a_server_refuses_keys_that_others_can_read(cli, tmp_path):
    keys = tmp_path / "keys.json"
    cli("keys", "create", keys, "--name", "x")
    keys.chmod(0o644)
    for asked in (["serve", "films", "--keys", keys], ["keys", "list", keys]):
        told = cli(*asked)
        assert told.code == 2
        assert f"`chmod 600 {keys}`" in told.err
