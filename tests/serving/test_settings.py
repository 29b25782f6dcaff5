"""``surerec serve`` as a user types it: its settings, and why it does not start."""

import inspect
import os
import socket
import subprocess
import sys

import pytest

from surerec.cli._serve import serve
from surerec.serving import ServerSettings
from tests.serving.serving_server import save_without_scorer


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


def test_what_keeps_it_from_starting_is_a_sentence(cli, model_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        consumed = cli("serve", model_folder, "--port", port)
    missing = cli("serve", tmp_path / "nowhere", "--port", "0")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text('{"format": "surerec-model"')
    damaged = cli("serve", tmp_path / "damaged", "--port", "0")
    own = cli("serve", save_without_scorer(tmp_path / "own"), "--port", "0")
    for done, says in (
        (consumed, f"Cannot listen on 127.0.0.1, port {port} (Address already in use)"),
        (missing, "There is no folder"),
        (damaged, "is damaged"),
        (own, "was saved without its scorer (ByCode)"),
    ):
        assert (done.code, done.out) == (2, "")
        assert says in done.err
        assert done.err.count("\n") == 1
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ  # its folder is gone


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
