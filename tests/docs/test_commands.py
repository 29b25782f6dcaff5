"""Every command in the documents is run: on small data that stand in for those it names.

What serves or runs on a cluster is parsed here, and run by other tests; what takes minutes runs in
`make test-full`.
"""

import pytest

import surerec as sr
from tests.docs.pages import (
    PAGES,
    check_understood,
    commands,
    name_of,
    write_files,
    write_shop,
)

COMMANDS = [(name_of(page), words) for page in PAGES for words in commands(page)]
PARSED_ONLY = {"serve", "demo", "compile", "reproduce", "keys"}  # tests/serving, cli, experiments
BIG = {"als", "learned", "recall-als"}


def is_run(words):
    return words[0] not in PARSED_ONLY | {"--version"} and not (BIG | {"spark"}) & set(words)


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
    write_files(at, consumed, ("who", "what", "seen"))
    write_shop(at, consumed)
    counts = sr.count_precedence(sr.read_interactions(at / "ratings.csv"))
    for name in ("films", "shop"):
        sr.InductiveConformal("CM12").fit(counts).save(at / name)
        sr.PopulationConformal("CM12").fit(counts).save(at / name)
    return at


@pytest.mark.parametrize("words", [words for _, words in COMMANDS], ids=" ".join)
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


def in_minutes(words):
    """Give a command that takes long as it is run here, None if another test runs it."""
    if words[0] in {"demo", "compile"}:
        return words
    if words[0] == "reproduce" and "spark" not in words:
        return ["reproduce", "--datasets", "ml-100k", "--n-users", "20", "--output"]
    return small(words) if BIG & set(words) else None


LONG = {tuple(asked) for _, words in COMMANDS if not is_run(words) and (asked := in_minutes(words))}


@pytest.mark.full
@pytest.mark.registry
@pytest.mark.parametrize("words", sorted(LONG), ids=" ".join)
def test_those_that_take_minutes_are_run_too(folder, cli, monkeypatch, tmp_path, words):
    monkeypatch.chdir(folder)
    asked = [*words, str(tmp_path / "out")] if words[-1] == "--output" else list(words)
    done = cli(*asked, *(["--overwrite"] if asked[0] == "fit" else []))
    if "out of reach" in done.err:
        pytest.skip(done.err)
    assert done.code == 0, done.err
