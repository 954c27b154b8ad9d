"""A browser that shows the web page of a server."""

import json
from dataclasses import dataclass
from typing import Any

from scheduler.observability.overview import Overview
from tests.browser.chromium import Tab
from tests.page_server import PageServer


@dataclass
class Viewer:
    """A browser that shows the page of a server."""

    tab: Tab
    server: PageServer

    async def open(self, path: str = "/pages/", token: str = "admin", **options: Any) -> None:
        """Loads the page and logs in."""
        await self.tab.open(self.server.url(path), **options)
        await self.tab.until("!document.getElementById('login').hidden")
        self.tab.errors.clear()  # the browser logs the refusal without a token
        await self.tab.value("document.getElementById('token').focus()")
        await self.tab.write(token)
        await self.tab.press("Enter")

    async def show(self, overview: Overview) -> None:
        """Sends an overview, and waits until the page shows it."""
        await self.tab.until("document.getElementById('connection').dataset.state === 'live'")
        self.server.overviews.publish(overview)
        await self.tab.until(f"data.at === {overview.at} && due.size === 0")

    async def text(self, selector: str) -> str:
        return str(await self.tab.value(f"document.querySelector({json.dumps(selector)}).innerText"))

    async def texts(self, selector: str) -> list[str]:
        """The texts of the visible elements that a selector selects."""
        found = await self.tab.value(
            f"[...document.querySelectorAll({json.dumps(selector)})].filter(e => e.checkVisibility())"
            ".map(e => e.innerText)"
        )
        return list(found)
