"""Make the pictures of docs/serving.md: ``python -m benchmarks.screenshots URL USER``."""

from __future__ import annotations

import shutil
import sys
from pathlib import Path

from playwright.sync_api import sync_playwright

_SCREENS = {
    "desktop": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
}


def main(url: str, user: str) -> None:
    """Open the page as each screen has it, with one reason open; then two recommenders."""
    images = Path(__file__).parents[1] / "docs" / "images"
    images.mkdir(exist_ok=True)
    with sync_playwright() as started:
        browser = started.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox"]
        )
        for name, screen in _SCREENS.items():
            page = browser.new_context(**screen).new_page()  # type: ignore[arg-type]
            page.goto(f"{url}#user={user}&confidence=0.8")
            page.locator(".ask").nth(1).click()
            page.wait_for_selector(".reasons li")
            page.wait_for_selector("#curve .main-svg")
            page.wait_for_timeout(500)
            page.screenshot(path=images / f"page-{name}.png")
        page = browser.new_context(**_SCREENS["desktop"]).new_page()  # type: ignore[arg-type]
        page.goto(f"{url}#user={user}&confidence=0.8&beside=icrs12")
        page.wait_for_selector("#beside-items li")
        page.wait_for_timeout(1000)
        page.screenshot(path=images / "page-beside.png")
        browser.close()


if __name__ == "__main__":
    main(sys.argv[1], sys.argv[2])
