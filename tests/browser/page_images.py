"""Draws the web page with an example cluster as `docs/images/page-*.png`. ``make page-images`` runs it."""

import asyncio
import sys
import time

from controlplane.manifests import ROOT
from tests.browser.chromium import chromium
from tests.browser.viewer import Viewer
from tests.overviews import example
from tests.page_server import page_server

TARGET = ROOT / "docs" / "images"
IMAGES = {"wide": (1600, False), "narrow": (360, True)}
"""Maps the name of an image to its width in pixels, and to whether the system is dark. The dark image shows only the
window."""


async def _draw() -> None:
    for name, (width, dark) in IMAGES.items():
        async with page_server() as server, chromium() as tab:
            viewer = Viewer(tab, server)
            await viewer.open(width=width, height=740, dark=dark)
            await viewer.show(example(time.time()))
            file = TARGET / f"page-{name}.png"
            await tab.screenshot(file, whole=not dark)
            print(file.relative_to(ROOT))


def main() -> int:
    """The entry point of the command line."""
    asyncio.run(_draw())
    return 0


if __name__ == "__main__":
    sys.exit(main())
