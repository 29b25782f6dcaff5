"""The files around the code agree with it and with each other."""

import ast
import re
import sys
import tomllib
from pathlib import Path

import pytest

import surerec

ROOT = Path(__file__).parents[1]
PROJECT = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))


def text(name):
    return (ROOT / name).read_text()


@pytest.fixture(scope="module")
def yaml():
    return pytest.importorskip("yaml", reason="it reads the project's YAML: pip install pyyaml")


def test_the_version_is_dated_and_cited(yaml):
    cited = yaml.safe_load(text("CITATION.cff"))
    found = re.search(
        r"^## (\d+\.\d+\.\d+) \((\d{4}-\d\d-\d\d)\)$", text("CHANGELOG.md"), re.MULTILINE
    )
    assert found.groups() == (surerec.__version__, str(cited["date-released"]))
    assert str(cited["version"]) == surerec.__version__
    assert cited["license"] == PROJECT["license"]


def test_hooks_are_local_and_are_what_make_check_runs(yaml):
    (repository,) = yaml.safe_load(text(".pre-commit-config.yaml"))["repos"]
    assert repository["repo"] == "local"
    checks = re.search(r"^check:.*\n((?:\t.*\n)+)", text("Makefile"), re.MULTILINE)[1]
    run = {tuple(line.split("/", 1)[1].split()[:2]) for line in checks.splitlines()}
    entries = {tuple(hook["entry"].split()[:2]) for hook in repository["hooks"]}
    assert entries == run


def test_workflows_test_every_version_that_is_named(yaml):
    parsed = {path.stem: yaml.safe_load(path.read_text()) for path in WORKFLOWS}
    assert set(parsed) == {"docs", "release", "tests"}
    tested = parsed["tests"]["jobs"]["tests"]["strategy"]["matrix"]["python"]
    named = [line.rsplit(" ", 1)[1] for line in PROJECT["classifiers"] if ":: 3." in line]
    assert tested == named
    for path in WORKFLOWS:
        for target in re.findall(r"run: make ([\w-]+)", path.read_text()):
            assert f"\n{target}:" in text("Makefile"), target


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda path: path.stem)
def test_actions_are_pinned_by_hash(path):
    used = re.findall(r"uses: (.*)", path.read_text())
    assert used
    for action in used:
        assert re.fullmatch(r"[\w./-]+@[0-9a-f]{40}  # v\d+\.\d+\.\d+", action), action


@pytest.mark.parametrize("name", ["CONTRIBUTING.md", "SECURITY.md", "README.md"])
def test_commands_and_links_of_the_invitations_exist(name):
    for target in re.findall(r"make ([a-z][\w-]*)", text(name)):
        assert f"\n{target}:" in text("Makefile"), target
    for link in re.findall(r"\]\((?!https?:)([^)#]+)", text(name)):
        assert (ROOT / link).exists(), link


def test_every_library_that_is_imported_is_declared():
    lines = [*PROJECT["dependencies"]]
    for extra in PROJECT["optional-dependencies"].values():
        lines += extra
    declared = {re.match(r"[\w-]+", line)[0].replace("-", "_").lower() for line in lines}
    imported = set()
    for path in (ROOT / "src").rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            if isinstance(node, ast.Import):
                imported |= {name.name.partition(".")[0] for name in node.names}
            elif isinstance(node, ast.ImportFrom) and not node.level:
                imported.add(node.module.partition(".")[0])
    assert imported - set(sys.stdlib_module_names) - declared <= {"surerec"}
