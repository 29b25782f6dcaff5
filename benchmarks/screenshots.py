"""Take the screenshots of the page: ``python -m benchmarks.screenshots URL USER``.

URL is the page of ``surerec demo --serve --no-browser``.
"""

from __future__ import annotations

import shutil
import sys
from io import BytesIO
from pathlib import Path
from typing import TYPE_CHECKING

from PIL import Image
from playwright.sync_api import sync_playwright

if TYPE_CHECKING:
    from playwright.sync_api import Browser, Page

IMAGES = Path(__file__).parents[1] / "docs" / "images"

_SCREENS = {
    "desktop": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "light"},
    "dark": {"viewport": {"width": 1360, "height": 860}, "color_scheme": "dark"},
    "phone": {"viewport": {"width": 390, "height": 844}, "color_scheme": "light"},
    "slider": {"viewport": {"width": 1000, "height": 620}, "color_scheme": "light"},
}
_GROUP = "#member=user:196&member=user:22&member=user:305&confidence=0.8"
_MOVES = (*range(50, 96, 3), *range(92, 79, -3))  # percent
_OFFLINE = [
    "--no-sandbox", "--disable-gpu", "--disable-quic", "--disable-background-networking",
    "--disable-component-update", "--disable-sync", "--no-first-run",
]  # fmt: skip


def _open(browser: Browser, screen: str, address: str, ready: str) -> Page:
    page = browser.new_context(**_SCREENS[screen]).new_page()  # type: ignore[arg-type]
    page.goto(address)
    page.wait_for_selector(ready, timeout=120_000)
    page.wait_for_timeout(1000)
    return page


def record_slider(browser: Browser, address: str) -> None:
    """Record how the set grows and shrinks with the confidence, as an animation of 5 s."""
    page = _open(browser, "slider", address, "#curve .main-svg")
    move = "(slider, at) => { slider.value = at; slider.dispatchEvent(new Event('input')); }"
    frames = []
    for percent in _MOVES:
        page.locator("#confidence").evaluate(move, percent)
        page.wait_for_function(
            "at => document.getElementById('guarantee').textContent.includes(`${at}%`)", arg=percent
        )
        frames.append(Image.open(BytesIO(page.screenshot())))
    lengths = [180] * (len(frames) - 1) + [1400]  # ms
    frames[0].save(IMAGES / "page-slider.webp", save_all=True, append_images=frames[1:],
                   duration=lengths, loop=0, quality=60, method=6)  # fmt: skip


def main(url: str, user: str) -> None:
    """Take screenshots of the page on each screen, of two recommenders and of a group."""
    alone = f"{url}#user={user}&confidence=0.8"
    pages = {
        "desktop": ("desktop", alone, "#curve .main-svg"),
        "dark": ("dark", alone, "#curve .main-svg"),
        "phone": ("phone", alone, "#curve .main-svg"),
        "beside": ("desktop", f"{alone}&compare=icrs12", "#second-items li"),
        "group": ("desktop", f"{url}{_GROUP}", "#items li"),
    }
    with sync_playwright() as started:
        chromium = shutil.which("chromium")
        browser = started.chromium.launch(executable_path=chromium, args=_OFFLINE)
        for name, (screen, address, ready) in pages.items():
            page = _open(browser, screen, address, ready)
            if name in ("desktop", "dark"):
                page.locator(".ask").nth(1).click()
                page.wait_for_selector(".reasons li", timeout=120_000)
            page.screenshot(path=IMAGES / f"page-{name}.png")
        record_slider(browser, alone)
        browser.close()


if __name__ == "__main__":
    main(*sys.argv[1:])
