"""Commands that are terminated or out of memory, and untrusted text in a terminal."""

import os
import signal
import subprocess
import sys

import polars as pl
import pytest

pytestmark = pytest.mark.skipif(os.name != "posix", reason="signals of Unix")

SLOW = """
import sys, time
from pathlib import Path
from surerec import cli
from surerec._files import file_aside

def slow(file: Path) -> None:
    with file_aside(file) as aside:
        aside.write_text("half")
        print("writing", flush=True)
        time.sleep(60)

cli.app.command("slow")(slow)
sys.argv = ["surerec", "slow", sys.argv[1]]
cli.main()
"""

AT_IMPORT = """
import sys

class Finder:
    def find_spec(self, name, path=None, target=None):
        if name == "surerec.cli":
            raise {error}

sys.meta_path.insert(0, Finder())
from surerec.__main__ import main
sys.argv = ["surerec", "describe", "x.csv"]
main()
"""


def test_a_terminated_command_leaves_no_partial_file(tmp_path):
    running = subprocess.Popen(  # noqa: S603  # our own command
        [sys.executable, "-c", SLOW, tmp_path / "picks.csv"], stdout=subprocess.PIPE, text=True
    )
    assert running.stdout.readline() == "writing\n"
    assert len(list(tmp_path.iterdir())) == 1
    running.send_signal(signal.SIGTERM)
    assert running.wait(30) == 128 + signal.SIGTERM
    running.stdout.close()
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("error", "code", "says"),
    [("KeyboardInterrupt", 130, "Interrupted."), ("MemoryError", 2, "not enough memory")],
)
def test_errors_during_imports_are_one_line(error, code, says):
    done = subprocess.run(  # noqa: S603  # our own command
        [sys.executable, "-c", AT_IMPORT.format(error=error)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == code
    assert says in done.stderr
    assert done.stderr.count("\n") == 1


def test_too_little_memory_is_one_line(cli, write, monkeypatch):
    def no_room(*_, **__):
        raise MemoryError("Unable to allocate 64 GiB")

    monkeypatch.setattr("surerec.cli._options.read", no_room)
    done = cli("describe", write("x.csv", "user_id,item_id\n1,2\n"))
    assert done.code == 2
    assert done.err == "Error: Not enough memory (Unable to allocate 64 GiB).\n"


def test_control_characters_in_ids_are_escaped(cli, tmp_path):
    hostile = "a\x1b[2J\x9b31m\u202eb"
    pairs = [(user, item) for user in range(20) for item in (hostile, "c\x07", "d", "e")]
    rows = pl.DataFrame(pairs, schema=["user_id", "item_id"], orient="row")
    path = tmp_path / "x.parquet"
    rows.with_columns(timestamp=pl.int_range(pl.len())).write_parquet(path)
    for command in (
        ("describe", path),
        ("fit", path, tmp_path / "m"),
        ("recommend", tmp_path / "m", "--history", "d", "--confidence", "0.5"),
        ("recommend", tmp_path / "m", "--user", "\x1b[2J"),
    ):
        done = cli(*command)
        assert done.code == (2 if "--user" in command else 0), done.err
        shown = done.out + done.err
        assert not set("\x1b\x9b\u202e\x07") & set(shown)
        assert "--history" not in command or r"a\x1b[2J\x9b31m\u202eb" in shown
