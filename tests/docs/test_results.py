"""Measured numbers on the pages are those of ``docs/results/results.json``, and no others."""

import json
import re
from datetime import date
from importlib.util import find_spec

import pytest

from benchmarks.renew import MARKED, ROOT, TABLE, load, pages, rewritten, rows_of, save, taken
from tests.docs.pages import name_of

CLAIMS = load()
CODE = re.compile(r"^( *)```.*?^\1```|`[^`]+`|^ {4}\S.*?$", re.DOTALL | re.MULTILINE)
LINKED = re.compile(r"^\d+\. |(\[\d+)?\]\([^)]*\)|<a id[^>]*>|<http[^>]*>", re.MULTILINE)
NUMBER = re.compile(r"(?<![\w.#/-])\d+(?:[.,]\d+)*%?(?!\w)")

# Numbers that nobody measured: levels and lengths to ask for, sizes that a design fixes.
OF_PAGE = {
    "": "10 17 20 30 0.1 0.2 0.3 0.5 0.9 5% 10% 20% 30% 40% 50% 70% 80% 90% 95%",  # every page
    "README.md": "3.11",
    "explanation/guarantees.md": "2021 2024",
    "explanation/how-items-are-scored.md": "2008 15 16 64 62,000 65,535 5,000 10,000",
    "explanation/paper.md": "11 12 13 14 15 16 18 500",
    "how-to/groups.md": "2020 2.75 3.22",
    "how-to/live.md": "0.01 0.7 0.8 1% 503 0600 0700 1970 1,000 10,000 100,000",
    "how-to/serve.md": "64 200 256 400 401 403 404 408 409 413 415 421 422 429 500 503 600 "
    "1000 5,000 10,000",
    "how-to/spark.md": "16 32 44,000 63,000",
    "reference/model-folder.md": "0600 0700",
    "results/index.md": "40 50 840 1,000 2,000 100,000",
    "results/reproduction.md": "0.05 0.95 500",
    "tutorials/audit-your-data.md": "90 1% 1,000",
    "tutorials/first-recommendations.md": "3.11",
    "tutorials/wrap-your-model.md": "64",
}


def unmeasured(text, page=""):
    """Return the numbers of a text that are neither marked nor constants; a digit is a word."""
    constants = f"{OF_PAGE['']} {OF_PAGE.get(page, '')}".split()
    for part in (CODE, TABLE, MARKED, LINKED):
        text = part.sub(" ", text)
    found = (number for number in NUMBER.findall(text) if not re.fullmatch(r"\d", number))
    return [number for number in found if number not in constants]


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_every_number_of_a_page_is_marked_or_a_constant(page):
    assert unmeasured(page.read_text(), name_of(page)) == []


@pytest.mark.parametrize("page", pages(), ids=name_of)
def test_marked_numbers_and_tables_are_those_of_the_file(page):
    text = page.read_text()
    assert rewritten(text, CLAIMS) == text, "write the pages: python -m benchmarks.renew --pages"


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("It takes 3.7 s, a set has 598 films.", ["3.7", "598"]),
        ("| ALS | 1,241 | 28% |", ["1,241", "28%"]),
        ("At 90%, `k=25` of MovieLens 100K and 9 others, CM12.", []),
        ("It needs 598<!--new-users/movielens-100k-cm12/items-0.1--> films.", []),
        ("```text\n612 of 1,643 films\n```", []),
    ],
)
def test_a_typed_number_is_found(text, found):
    assert unmeasured(text) == found


def test_constants_of_a_page_are_on_it():
    for page in pages():
        for number in OF_PAGE.get(name_of(page), "").split():
            assert number in unmeasured(page.read_text()), f"{name_of(page)}: {number}"


def test_a_changed_value_changes_the_page():
    changed = json.loads(json.dumps(CLAIMS))
    rows_of(changed["attack"])["840 hits"]["values"][1] = 1234
    page = (ROOT / "docs" / "results" / "index.md").read_text()
    assert "1,234<!--attack/840-hits/after-->" in rewritten(page, changed)


@pytest.mark.parametrize("name", CLAIMS)
def test_a_claim_is_complete_and_used(name):
    claim = CLAIMS[name]
    for row in rows_of(claim).values():
        assert len(row["values"]) == len(claim["columns"])
        assert row.get("take", "#" * len(row["values"])).count("#") == len(row["values"])
    for each in claim["measured"]:
        assert date.fromisoformat(each["date"]) <= date.today()  # noqa: DTZ011
        assert each["seconds"] is None or each["seconds"] >= 0
        for module in re.findall(r"python -m ([\w.]+)", each["command"]):
            assert find_spec(module), module
    used = "".join(page.read_text() for page in pages())
    assert f"<!--table {name}-->" in used or f"<!--{name}/" in used


def test_numbers_are_taken_from_what_a_command_prints():
    assert taken("a | # … b: #", "x a |  0.5 | then\nb: 1,312 items") == [0.5, 1312]
    with pytest.raises(LookupError, match="not printed"):
        taken("c #", "a 1")


def test_the_file_is_written_as_it_is(tmp_path, monkeypatch):
    monkeypatch.setattr("benchmarks.renew.FILE", tmp_path / "results.json")
    save(CLAIMS)
    assert (tmp_path / "results.json").read_text() == (
        ROOT / "docs" / "results" / "results.json"
    ).read_text()
