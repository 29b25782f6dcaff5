"""The Python of every page runs from top to bottom, on small data in the place of the real ones."""

import re
import warnings

import pytest

import surerec as sr
from tests.docs.pages import PAGES, ROOT, blocks, name_of, write_shop

# Other libraries have environments of their own (tests/adapters); Spark needs a cluster.
ELSEWHERE = {"how-to/models.md", "how-to/spark.md"}
RUN = [page for page in PAGES if blocks(page, "python") and name_of(page) not in ELSEWHERE]


@pytest.mark.parametrize("page", RUN, ids=name_of)
def test_the_examples_of_a_page_run(page, tmp_path, monkeypatch):
    films = sr.datasets.synthetic(n_users=360, n_items=320, n_rows=9_000, random_state=1)
    films.to_frame().write_csv(tmp_path / "ratings.csv")
    write_shop(tmp_path, films)
    monkeypatch.setattr(sr, "load_dataset", lambda *_: films)
    monkeypatch.chdir(tmp_path)
    names = {"sr": sr, "films": films, "interactions": films, "i": 3, "u": 7}
    for code in blocks(page, "python"):
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")  # such as that promises are for some people only
            exec(compile(code, str(page), "exec"), names)  # noqa: S102  # our own page


@pytest.mark.parametrize("page", PAGES, ids=name_of)
def test_links_lead_somewhere(page):
    made = {"contributing.md", "security.md", "changelog.md", "benchmarks.md"}  # by checks/site.py
    for link in re.findall(r"\]\((?!https?:|#)([^)#\s]+)", page.read_text()):
        if not link.startswith("notebooks/") and link not in made:
            assert (page.parent / link).exists(), link
    for link in re.findall(r"\]\(notebooks/([^)#]+)\.md\)", page.read_text()):
        assert (ROOT / "notebooks" / f"{link}.ipynb").exists(), link
