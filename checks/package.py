"""Build the distributions, and test the wheel in an empty environment.

``make package`` runs ``python -m checks.package``. The distributions are in ``dist``.
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
_UNREACHED = 75  # EX_TEMPFAIL of sysexits.h
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
    f"c{user},p{(user * 7 + place * 3) % 11},2024-05-{place + 1:02}\n"
    for user in range(40)
    for place in range(8)
)


def build(folder: Path) -> Path:
    """Build and check the source distribution and the wheel, and return the wheel."""
    shutil.rmtree(folder, ignore_errors=True)
    _run(sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT))
    made = sorted(map(str, folder.iterdir()))
    _run(sys.executable, "-m", "twine", "check", "--strict", *made)
    (wheel,) = folder.glob("*.whl")
    with ZipFile(wheel) as archive:
        names = set(archive.namelist())
    if missing := [name for name in _NEEDED if name not in names]:
        sys.exit(f"{wheel.name} lacks {', '.join(missing)}.")
    extra = {name.split("/")[0] for name in names if ".dist-info/" not in name} - {"surerec"}
    if extra:
        sys.exit(f"{wheel.name} also contains {', '.join(sorted(extra))}.")
    return wheel


def try_out(wheel: Path, empty: Path) -> None:
    """Install the wheel into an empty environment, and run the README's example and commands."""
    venv.create(empty / "venv", with_pip=True)
    binaries = empty / "venv" / ("Scripts" if os.name == "nt" else "bin")
    pip = ("-m", "pip", "install", "--quiet", "--disable-pip-version-check")
    _run(str(binaries / "python"), *pip, str(wheel))
    print(_run(str(binaries / "surerec"), "--version", cwd=empty).strip())  # noqa: T201
    (empty / "shop.csv").write_text(_SHOP, encoding="utf-8")
    for arguments in (
        ("describe", "shop.csv"),
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
        sys.exit(f"The README's example has another output:\n{done.stdout}{done.stderr}")


def readme_example() -> tuple[str, str]:
    """Return the first example of the README and its output."""
    text = (ROOT / "README.md").read_text(encoding="utf-8")
    found = re.search(r"```python\n(.*?)```\n\n```text\n(.*?)```", text, re.DOTALL)
    if found is None:
        sys.exit("README.md has no example with its output.")
    return found[1], found[2]


def _run(*command: str, cwd: Path | None = None) -> str:
    # Excludes the sources of this checkout.
    clean = {name: value for name, value in os.environ.items() if name != "PYTHONPATH"}
    done = subprocess.run(  # our own commands
        command, capture_output=True, text=True, check=False, cwd=cwd, env=clean
    )
    if done.returncode:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def main() -> None:
    """Build and test the distributions."""
    begin = perf_counter()
    wheel = build(ROOT / "dist")
    with TemporaryDirectory(prefix="surerec-package-") as empty:
        try_out(wheel, Path(empty))
    print(f"{wheel.name}: built, checked and tested in {perf_counter() - begin:.0f} s.")  # noqa: T201


if __name__ == "__main__":
    main()
