"""Chromium without a window, driven over the DevTools protocol."""

import asyncio
import base64
import contextlib
import json
import os
import shutil
import signal
import tempfile
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, Final

import aiohttp
import pytest

NAMES: Final = ("chromium", "chromium-browser", "google-chrome")
_FLAGS: Final = (
    "--headless=new", "--remote-debugging-port=0", "--no-sandbox", "--disable-gpu", "--no-first-run",
    "--disable-dev-shm-usage", "--disable-background-networking", "--disable-component-update", "--disable-extensions",
    "--disable-sync", "--mute-audio", "--hide-scrollbars", "--force-color-profile=srgb", "--lang=en-GB",
    "--ignore-certificate-errors",
)  # fmt: skip
STARTING: Final = 60.0
"""The time limit of an answer of the browser, in seconds."""
WAITING: Final = 60.0
"""The time limit for a condition of a page to become true, in seconds."""
KEYS: Final = {
    "Tab": (9, ""),
    "Enter": (13, "\r"),
    "Space": (32, " "),
}
"""Maps the name of a key to its code and text."""


def program() -> str:
    """The path of Chromium. Skips the test if there is none; in the CI the test fails instead, because a skip would
    count as a pass."""
    found = next(filter(None, map(shutil.which, NAMES)), "")
    if not found:
        reason = "no Chromium: install the package `chromium`"
        if os.environ.get("CI", "").lower() == "true":
            pytest.fail(reason, pytrace=False)
        pytest.skip(reason)
    return found


class Tab:
    """A page of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self._socket = socket
        self._number = 0
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self.errors: list[str] = []
        """The exceptions, errors in the console, and violations of the content security policy so far."""

    async def receive(self) -> None:
        """Reads messages of the browser until the connection ends."""
        async for message in self._socket:
            content = json.loads(message.data)
            answer = self._answers.pop(content.get("id", 0), None)
            if answer is not None and not answer.done():
                answer.set_result(content)
            parameters = content.get("params", {})
            match content.get("method"):
                case "Runtime.exceptionThrown":
                    self.errors.append(json.dumps(parameters["exceptionDetails"])[:2000])
                case "Runtime.consoleAPICalled" if parameters["type"] in ("error", "warning", "assert"):
                    self.errors.append(json.dumps(parameters["args"])[:2000])
                case "Log.entryAdded" if parameters["entry"]["level"] in ("error", "warning"):
                    self.errors.append(json.dumps(parameters["entry"])[:2000])

    async def send(self, method: str, **parameters: Any) -> dict[str, Any]:
        """The result of a command."""
        self._number += 1
        answer = self._answers[self._number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": self._number, "method": method, "params": parameters})
        content = await asyncio.wait_for(answer, WAITING)
        if "error" in content:
            raise AssertionError(f"{method}: {content['error']}")
        return dict(content["result"])

    async def value(self, expression: str) -> Any:
        """The value of a JavaScript expression."""
        found = await self.send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        if "exceptionDetails" in found:
            raise AssertionError(f"{expression}: {found['exceptionDetails']}")
        return found["result"].get("value")

    async def until(self, expression: str, *, timeout: float = WAITING) -> Any:
        """The first true value of an expression."""
        deadline = asyncio.get_running_loop().time() + timeout
        while True:
            with contextlib.suppress(AssertionError):  # the page is being loaded
                if found := await self.value(expression):
                    return found
            if asyncio.get_running_loop().time() > deadline:
                text = await self.value("document.body.innerText")
                raise AssertionError(f"not within {timeout:g} s: {expression}; errors: {self.errors}; page: {text}")
            await asyncio.sleep(0.05)

    async def open(self, url: str, *, width: int = 1440, height: int = 900, dark: bool = False) -> None:
        """Loads a page in a window of this size. ``width``, ``height``: in CSS pixels."""
        await self.send(
            "Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=width < 500
        )
        features = [{"name": "prefers-color-scheme", "value": "dark" if dark else "light"}]
        await self.send("Emulation.setEmulatedMedia", features=features)
        await self.send("Page.navigate", url=url)
        await self.until("document.readyState === 'complete'")

    async def press(self, key: str, *, shift: bool = False) -> None:
        """Presses a key of ``KEYS``."""
        code, text = KEYS[key]
        named = {"key": text if text == " " else key, "code": key, "windowsVirtualKeyCode": code}
        modifiers = 8 if shift else 0
        await self.send("Input.dispatchKeyEvent", type="keyDown", text=text, modifiers=modifiers, **named)
        await self.send("Input.dispatchKeyEvent", type="keyUp", modifiers=modifiers, **named)

    async def write(self, text: str) -> None:
        """Types a text into the focused element."""
        await self.send("Input.insertText", text=text)

    async def screenshot(self, path: Path, *, whole: bool = True) -> None:
        """Writes the page as a PNG file. ``whole``: the image also contains the part below the window."""
        found = await self.send("Page.captureScreenshot", format="png", captureBeyondViewport=whole)
        path.write_bytes(base64.b64decode(found["data"]))


@asynccontextmanager
async def chromium() -> AsyncIterator[Tab]:
    """A browser with one page, and an empty profile."""
    with tempfile.TemporaryDirectory(ignore_cleanup_errors=True) as profile:
        process = await asyncio.create_subprocess_exec(
            program(), *_FLAGS, f"--user-data-dir={profile}", "about:blank",
            stdin=asyncio.subprocess.DEVNULL, stdout=asyncio.subprocess.DEVNULL, stderr=asyncio.subprocess.DEVNULL,
            start_new_session=True,
        )  # fmt: skip
        try:
            port = await _port(Path(profile) / "DevToolsActivePort", process)
            async with aiohttp.ClientSession() as session:
                async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                    (target,) = [each for each in await answer.json() if each["type"] == "page"]
                async with session.ws_connect(target["webSocketDebuggerUrl"], max_msg_size=0) as socket:
                    tab = Tab(socket)
                    receiving = asyncio.create_task(tab.receive())
                    for domain in ("Page", "Runtime", "Log"):
                        await tab.send(f"{domain}.enable")
                    try:
                        yield tab
                    finally:
                        receiving.cancel()
        finally:
            with contextlib.suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGKILL)
            await process.wait()


async def _port(file: Path, process: asyncio.subprocess.Process) -> int:
    """The port that the browser has chosen."""
    deadline = asyncio.get_running_loop().time() + STARTING
    while asyncio.get_running_loop().time() < deadline:
        if process.returncode is not None:
            raise AssertionError(f"Chromium ended with code {process.returncode}")
        with contextlib.suppress(OSError, ValueError, IndexError):
            return int(file.read_text(encoding="utf-8").splitlines()[0])
        await asyncio.sleep(0.05)
    raise AssertionError(f"Chromium was not ready within {STARTING:g} s")
