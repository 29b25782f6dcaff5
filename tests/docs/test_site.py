"""The site of `make docs` opens from the disk, search included."""

import re
import shutil

import pytest

from tests.docs.pages import ROOT

SITE = ROOT / "site" / "index.html"
CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser")


def test_a_page_has_one_title_its_heading():
    yaml = pytest.importorskip("yaml", reason="it reads mkdocs.yml: pip install pyyaml")
    nav = yaml.safe_load((ROOT / "mkdocs.yml").read_text())["nav"]
    named = [page for section in nav if isinstance(section, dict) for page in section.values()]
    assert all(isinstance(page, str) for pages in named for page in pages)


@pytest.mark.skipif(CHROMIUM is None, reason="no chromium: apt-get install chromium")
@pytest.mark.skipif(not SITE.exists(), reason="the site is not built: make docs")
@pytest.mark.parametrize("name", ["index.html", "reference/surerec.audit.html"])
def test_the_search_works_from_the_disk(name):
    playwright = pytest.importorskip("playwright.sync_api", reason="it needs playwright")
    errors = []
    with playwright.sync_playwright() as started:
        browser = started.chromium.launch(executable_path=CHROMIUM, args=["--no-sandbox"])
        page = browser.new_page()
        page.on("pageerror", lambda error: errors.append(str(error)))
        page.goto((SITE.parent / name).as_uri())
        page.click(".md-search__input")
        page.keyboard.type("exchangeable")
        page.wait_for_selector(".md-search-result__item")
        page.locator(".md-search-result__link").first.click()
        page.wait_for_url(re.compile("^file://.*exchangeable"))
        assert "exchangeable" in page.inner_text("article")
        browser.close()
    assert errors == []
