"""Make the screenshots of the docs.

``python -m benchmarks.screenshots URL USER`` takes the page of `surerec demo --serve` at URL;
``python -m benchmarks.screenshots`` runs the notebooks, and takes what they put out.
"""

from __future__ import annotations

import ast
import json
import shutil
import sys
from contextlib import contextmanager, redirect_stdout
from html import escape
from io import StringIO
from pathlib import Path
from typing import TYPE_CHECKING, Any

from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from collections.abc import Iterator

    from playwright.sync_api import Browser

ROOT = Path(__file__).parents[1]

_SCREENS = {
    "desktop": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


_GROUP = "#member=user:196&member=user:22&member=user:305&confidence=0.8"
_LIKE_JUPYTER = """<style>body { width: 860px; margin: 16px; font: 14px sans-serif; }
pre { margin: 8px 0; white-space: pre-wrap; } pre.code { padding: 8px; background: #f5f5f5; }
table { border-collapse: collapse; } td, th { padding: 2px 8px; text-align: right; }</style>"""


@contextmanager
def _chromium() -> Iterator[Browser]:
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        yield browser
        browser.close()


def main(url: str, user: str) -> None:
    """Take screenshots of the page on each screen, of two recommenders and of a group."""
    images = ROOT / "docs" / "images"
    with _chromium() as browser:
        for name, screen in _SCREENS.items():
            page = browser.new_context(**screen).new_page()  # type: ignore[arg-type]
            page.goto(f"{url}#user={user}&confidence=0.8")
            page.wait_for_selector("#curve .main-svg")
            if name != "phone":
                page.locator(".ask").nth(1).click()
                page.wait_for_selector(".reasons li")
            page.wait_for_timeout(500)
            page.screenshot(path=images / f"page-{name}.png")
        for name, address, ready in (
            ("beside", f"#user={user}&confidence=0.8&compare=icrs12", "#second-items li"),
            ("group", _GROUP, "#items li"),
        ):
            page = browser.new_context(**_SCREENS["desktop"]).new_page()  # type: ignore[arg-type]
            page.goto(f"{url}{address}")
            page.wait_for_selector(ready)
            page.wait_for_timeout(1000)
            page.screenshot(path=images / f"page-{name}.png")


def notebooks() -> None:
    """Run the notebooks, and take screenshots of cells with their output."""
    with _chromium() as browser:
        for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
            names: dict[str, Any] = {}
            cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
            page = browser.new_page(viewport={"width": 892, "height": 600})
            shown = "".join(_cell(cell, names) for cell in cells)
            page.set_content(f"<meta charset=utf-8>{_LIKE_JUPYTER}{shown}")
            images = ROOT / "docs" / "images"
            page.screenshot(path=images / f"notebook-{path.stem}.png", full_page=True)


def _cell(cell: dict[str, Any], names: dict[str, Any]) -> str:
    """Run a cell, and return it with its output as HTML."""
    source = "".join(cell["source"])
    if cell["cell_type"] != "code":
        return f"<p>{escape(source.lstrip('# ').replace('**', ''))}</p>"
    body = ast.parse(source).body
    last = body.pop() if isinstance(body[-1], ast.Expr) else None
    printed = StringIO()
    with redirect_stdout(printed):
        exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  # our own
        value: Any = None if last is None else eval(ast.unparse(last), names)  # noqa: S307
    shown = f"<pre class=code>{escape(source)}</pre><pre>{escape(printed.getvalue())}</pre>"
    if hasattr(value, "_repr_html_"):
        return shown + str(value._repr_html_())
    return shown if value is None else f"{shown}<pre>{escape(repr(value))}</pre>"


if __name__ == "__main__":
    main(*sys.argv[1:]) if sys.argv[1:] else notebooks()
