"""Settings and start-up errors of ``surerec serve``."""

import inspect
import os
import socket
import subprocess
import sys

import pytest

from surerec.cli._serve import serve
from surerec.serving import ServerSettings
from tests.serving.serving_server import save_without_scorer


def test_options_and_settings_agree():
    assert list(inspect.signature(serve).parameters) == list(ServerSettings.model_fields)
    for field in ServerSettings.model_fields.values():
        assert field.description


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (["--host", "0.0.0.0"], "needs API keys. Create one with"),  # noqa: S104
        (["--host", "192.0.2.1", "--keys", "no.json"], "There is no key file no.json"),
        (["--host", "no.such.host.example", "--keys", "KEYS"], "Cannot listen on"),
        (["--host", "192.0.2.1", "--keys", "KEYS"], "Cannot listen on"),
        (["--keys", "KEYS", "--insecure-admin"], "--insecure-admin cannot be combined with --keys"),
        (["--port", "99999"], "--port (SUREREC_SERVE_PORT) is 99999"),
        (["--workers", "0"], "--workers (SUREREC_SERVE_WORKERS) is 0"),
        (["--log-level", "loud"], "--log-level (SUREREC_SERVE_LOG_LEVEL) is 'loud'"),
        (["--cors-origins", "shop"], "an origin is an address such as https://shop.example"),
    ],
)
def test_invalid_settings_are_one_line_errors(cli, model_folder, tmp_path, options, message):
    cli("keys", "create", tmp_path / "KEYS", "--name", "x")
    options = [str(tmp_path / "KEYS") if option == "KEYS" else option for option in options]
    done = cli("serve", model_folder, *options)
    done.assert_refused(message)
    assert done.err.count("\n") == 1


def test_start_up_errors_are_one_line(cli, model_folder, tmp_path):
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = str(listener.getsockname()[1])
        in_use = cli("serve", model_folder, "--port", port)
    missing = cli("serve", tmp_path / "nowhere", "--port", "0")
    (tmp_path / "damaged").mkdir()
    (tmp_path / "damaged" / "manifest.json").write_text('{"format": "surerec-model"')
    damaged = cli("serve", tmp_path / "damaged", "--port", "0")
    own = cli("serve", save_without_scorer(tmp_path / "own"), "--port", "0")
    for done, message in (
        (in_use, f"Cannot listen on 127.0.0.1, port {port} (Address already in use)"),
        (missing, "There is no folder"),
        (damaged, "is damaged"),
        (own, "was saved without its scorer (ByCode)"),
    ):
        done.assert_refused(message)
        assert done.err.count("\n") == 1
    assert "PROMETHEUS_MULTIPROC_DIR" not in os.environ  # its folder is gone


def test_a_missing_extra_is_reported(model_folder):
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
