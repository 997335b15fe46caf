"""Draw the pictures of the viewer again, by a real browser: docs/pictures/*.png.

Needs Chromium, playwright and the default model: python docs/draw_views.py [VIEW…]
"""

import shutil
import sys
import tempfile
from pathlib import Path

from playwright.sync_api import Browser, sync_playwright

import regard

SENTENCE = "The kids were scared of the lions, so they left right away."
PICTURES = Path(__file__).parent / "pictures"
FLAGS = [
    "--headless", "--no-sandbox", "--disable-gpu", "--disable-background-networking", "--disable-component-update",
    "--disable-sync", "--no-first-run",
]  # fmt: skip
VIEWS = (
    "vote",
    "dots",
    "sentence",
    "matter",
    "grid",
    "matrix",
    "steps",
    "context",
    "words",
    "output",
    "architecture",
    "lookup",
)
APPLE = ("Love Apple phones", "Love apple pie")
KINDS = {"": (1200, 900, "light"), "-dark": (1200, 900, "dark"), "-narrow": (360, 780, "light")}


def main() -> None:
    PICTURES.mkdir(exist_ok=True)
    found = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
    if found is None:
        sys.exit("Chromium is not installed.")
    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        page = Path(folder, "kids.html")
        model = regard.model()
        model.read(SENTENCE).save_html(page)
        two = Path(folder, "apple.html")
        model.read(APPLE[0]).save_html(two, beside=model.read(APPLE[1]))
        whole = Path(folder, "model.html")
        if "matter" in (sys.argv[1:] or VIEWS):
            model.read(SENTENCE).save_html(whole, with_model=True)
        browser = playwright.chromium.launch(executable_path=found, args=FLAGS)
        for view in sys.argv[1:] or VIEWS:
            for kind, (width, height, scheme) in KINDS.items():
                place = "" if view == "vote" else f"#view={view}&layer=3&head=1&query=they"
                shown = {
                    "context": f"{two.as_uri()}#view=context&query=Apple",
                    "matter": f"{whole.as_uri()}{place}&matter_struck=3.1,5.2,5.8",
                }.get(view, f"{page.as_uri()}{place}")
                draw(browser, shown, f"{view}{kind}", width, height, scheme)
        browser.close()


def draw(browser: Browser, address: str, name: str, width: int, height: int, scheme: str) -> None:
    opened = browser.new_page(viewport={"width": width, "height": height}, color_scheme=scheme)
    opened.goto(address)
    opened.wait_for_selector('.regard[aria-busy="false"]')
    if name.startswith("matter"):
        opened.wait_for_selector(".regard-matter-said b")  # the model in the page has computed
    if name.startswith("vote"):
        opened.get_by_text("kids", exact=True).first.click()  # the guess, and dots fall
    opened.wait_for_timeout(1200)  # tiles and thumbnails come in
    opened.screenshot(path=PICTURES / f"{name}.png")
    opened.close()


if __name__ == "__main__":
    main()
