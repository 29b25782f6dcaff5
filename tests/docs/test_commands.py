"""Every command in the documents is run: on small data that stand in for those it names.

What serves, runs on a cluster or takes minutes is parsed here, and run by other tests; so are the
examples of ``--help``.
"""

import re
import shlex

import pytest

import surerec as sr
from checks.site import commands as all_commands
from tests.docs.pages import (
    PAGES,
    check_understood,
    commands,
    name_of,
    write_files,
    write_shop,
)

COMMANDS = [(name_of(page), words) for page in PAGES for words in commands(page)]
EXAMPLES = [
    shlex.split(example)[1:]
    for _, command in all_commands()
    for paragraph in re.split(r"\n\s*\n", command.help or "")
    for example in re.findall(r"\bsurerec .*", " ".join(paragraph.split()))
    if re.match(r"(\[bold\]Examples?:\[/bold\] ?|echo .*\| )*surerec ", " ".join(paragraph.split()))
]
PARSED_ONLY = {"serve", "demo", "compile", "reproduce", "keys"}  # tests/serving, cli, experiments
BIG = {"als", "learned", "recall-als"}


def is_run(words):
    elsewhere = BIG | {"spark", "--scorer"}  # a scorer to import: tests/serving/test_scorer.py
    return words[0] not in PARSED_ONLY | {"--version"} and not elsewhere & set(words)


def small(words):
    """Put the small data in the place of those named, and as few users as will do."""
    stands_in = {"ml-100k": "ratings.csv", "ml-1m": "ratings.csv", "new-ratings.csv": "ratings.csv"}
    found = [stands_in.get(word, word) for word in words]
    return [*found, "--n-users", "60"] if words[0] == "audit" else found


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    """Everything that the documents' commands find when they are run: files and models."""
    at = tmp_path_factory.mktemp("docs")
    consumed = sr.datasets.synthetic(n_users=260, n_items=320, n_rows=9_000, random_state=1)
    write_files(at, consumed)
    write_shop(at, consumed)
    counts = sr.count_precedence(sr.read_interactions(at / "ratings.csv"))
    for name in ("films", "shop"):
        sr.InductiveConformal("CM12").fit(counts).save(at / name)
        sr.PopulationConformal("CM12").fit(counts).save(at / name)
    return at


def test_every_command_but_the_plainest_has_an_example():
    without = {words for words, command in all_commands() if "surerec" not in (command.help or "")}
    assert {words[0] for words in without} <= {"measures", "live", "keys", "datasets"}
    assert len(EXAMPLES) >= 38


@pytest.mark.parametrize("words", [*(words for _, words in COMMANDS), *EXAMPLES], ids=" ".join)
def test_every_command_is_understood(words):
    if words != ["--version"]:
        check_understood(words)


@pytest.mark.slow
def test_those_that_can_be_run_are_run(folder, cli, monkeypatch):
    monkeypatch.chdir(folder)
    ran = 0
    for page, words in COMMANDS:
        if not is_run(words):
            continue
        asked = small(words)
        if asked[0] in ("fit", "wrap"):
            asked += ["--overwrite"]
        if asked[0] == "audit" and "--output" in asked and (folder / "audit").exists():
            continue  # figures take seconds: one audit's are enough
        done = cli(*asked)
        assert done.code == 0, f"{page}: surerec {' '.join(asked)}\n{done.err}"
        ran += 1
    assert ran >= 25
