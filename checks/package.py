"""Build what is published, and try it where nothing else is: the wheel in an empty environment.

Run as ``python -m checks.package``; `make package` does. What is built stays in ``dist``.
"""

from __future__ import annotations

import os
import re
import shutil
import subprocess
import sys
import venv
from pathlib import Path
from tempfile import TemporaryDirectory
from time import perf_counter
from zipfile import ZipFile

ROOT = Path(__file__).parents[1]
_NEEDED = (
    "surerec/py.typed",
    "surerec/reports/report.css",
    "surerec/experiments/paper.json",
    "surerec/serving/static/index.html",
)
_UNREACHED = 75  # as in sysexits.h: try again later
_EXAMPLE = """
import sys
import surerec
try:
    exec(compile(sys.stdin.read(), "README.md", "exec"), {})
except surerec.FetchError as error:
    print(error, file=sys.stderr)
    sys.exit(75)
"""
_SHOP = "customer,product,purchased_at\n" + "".join(
    f"c{who},p{(who * 7 + place * 3) % 11},2024-05-{place + 1:02}\n"
    for who in range(40)
    for place in range(8)
)


def build(folder: Path) -> Path:
    """Build the source distribution and the wheel, check both, and give the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    made = sorted(map(str, folder.iterdir()))
    _run(sys.executable, "-m", "twine", "check", "--strict", *made)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    if lacking := [name for name in _NEEDED if name not in names]:
        sys.exit(f"{wheel.name} lacks {', '.join(lacking)}.")
    strange = {name.split("/")[0] for name in names if ".dist-info/" not in name} - {"surerec"}
    if strange:
        sys.exit(f"{wheel.name} brings {', '.join(sorted(strange))} as well.")
    return wheel


def try_out(wheel: Path, empty: Path) -> None:
    """Install the wheel into an empty environment; run the README's example, and a shop's file."""
    venv.create(empty / "venv", with_pip=True)
    binaries = empty / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(str(binaries / "python"), *pip, str(wheel))
    print(_run(str(binaries / "surerec"), "--version", cwd=empty).strip())  # noqa: T201
    (empty / "shop.csv").write_text(_SHOP, encoding="utf-8")
    for arguments in (
        ("describe", "shop.csv", "--pairs", "1"),
        ("fit", "shop.csv", "shop"),
        ("recommend", "shop", "--user", "c7", "--confidence", "0.8"),
    ):
        _run(str(binaries / "surerec"), *arguments, cwd=empty)
    code, expected = readme_example()
    done = subprocess.run(
        [str(binaries / "python"), "-I", "-c", _EXAMPLE],
        input=code,
        capture_output=True,
        text=True,
        check=False,
        cwd=empty,
    )
    if done.returncode == _UNREACHED:
        print(f"The README's example was not run: {done.stderr.strip()}")  # noqa: T201
    elif (done.returncode, done.stdout) != (0, expected):
        sys.exit(f"The README's example prints something else:\n{done.stdout}{done.stderr}")


def readme_example() -> tuple[str, str]:
    """Give the README's first example and what it prints."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    if found is None:
        sys.exit("README.md has no example with what it prints.")
    return found[1], found[2]


def _run(*command: str, cwd: Path | None = None) -> str:
    # Nothing of this checkout: neither its sources nor what else is installed beside it.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # our own commands
        command, capture_output=True, text=True, check=False, cwd=cwd, env=clean
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build and try it."""
    begin = perf_counter()
    wheel = build(ROOT / "dist")
    with TemporaryDirectory(prefix="surerec-package-") as empty:
        try_out(wheel, Path(empty))
    print(f"{wheel.name}: built, checked and tried in {perf_counter() - begin:.0f} s.")  # noqa: T201


if __name__ == "__main__":
    main()
