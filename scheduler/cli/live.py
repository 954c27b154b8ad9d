"""A live view on a terminal: a table that is drawn again and again on a screen of its own, until ``q`` or Ctrl-C."""

import asyncio
import contextlib
import io
import os
import shutil
import signal
import termios
import tty
from collections.abc import AsyncIterator, Iterator, Sequence
from contextlib import asynccontextmanager, contextmanager
from typing import Final

from scheduler.cli.text import draw, echo, rendered

_OPEN: Final = "\x1b[?1049h\x1b[?25l\x1b[?7l"
"""Another screen, without a cursor; a line that is too long does not continue on the next one."""
_CLOSE: Final = "\x1b[?7h\x1b[?25h\x1b[?1049l"
_HOME: Final = "\x1b[H"
_CLEAR_LINE: Final = "\x1b[K"
_CLEAR_BELOW: Final = "\x1b[J"
_FRAME_SECONDS: Final = 0.25
"""Least time between two frames; each shows all changes until then."""
_REFRESH_SECONDS: Final = 1.0
"""Time after which ages are updated although nothing else has changed."""
_INPUT: Final = 0
_LEAVE: Final = b"qQ"


class LiveScreen:
    """The screen of a live view."""

    def __init__(self, changed: asyncio.Event) -> None:
        self.left = False
        """Whether the user left with ``q``."""
        self.last: list[str] = []
        """The lines of the last frame, all of them."""
        self._changed = changed

    def draw(self, blocks: Sequence[Sequence[str]]) -> None:
        """Draws a table. ``blocks``: the lines of its titles, and then of each row."""
        self.last = [line for block in blocks for line in block]
        height = shutil.get_terminal_size().lines
        lines = fitting(blocks, height)
        # After a line that fills the width, the cursor is still on its last character: lines are cleared before.
        text = "\n".join(_CLEAR_LINE + rendered(line) for line in lines)
        draw(_HOME + text + (f"\n{_CLEAR_BELOW}" if len(lines) < height else ""))

    async def pause(self) -> None:
        """Waits until the next frame: for a change, a key, or until ages are out of date."""
        if not self.left:
            await asyncio.sleep(_FRAME_SECONDS)
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(_REFRESH_SECONDS):
                    await self._changed.wait()

    def read_keys(self) -> None:
        if any(key in _LEAVE for key in os.read(_INPUT, 1024)):
            self.left = True
            self._changed.set()


def fitting(blocks: Sequence[Sequence[str]], height: int) -> list[str]:
    """The lines of the titles and the first rows that fit on a screen; the last line counts the rows that do not."""
    if sum(map(len, blocks)) <= height:
        return [line for block in blocks for line in block]
    lines: list[str] = []
    for number, block in enumerate(blocks):
        if number and len(lines) + len(block) > height - 1:
            return [*lines[: height - 1], f"... {len(blocks) - number} more rows do not fit on this screen"]
        lines += block
    return lines[:height]


@asynccontextmanager
async def live_screen(changed: asyncio.Event) -> AsyncIterator[LiveScreen]:
    """A screen on the terminal of standard output. ``changed``: set when there is something new to draw.

    At the end, the terminal is restored; the last frame, and all that was printed on standard error meanwhile, remain.
    """
    screen = LiveScreen(changed)
    errors = io.StringIO()
    loop = asyncio.get_running_loop()
    loop.add_signal_handler(signal.SIGWINCH, changed.set)
    try:
        with _keys(loop, screen), contextlib.redirect_stderr(errors):
            draw(_OPEN)
            try:
                yield screen
            finally:
                draw(_CLOSE)
    finally:
        loop.remove_signal_handler(signal.SIGWINCH)
        for line in screen.last:
            echo(line)
        for line in errors.getvalue().splitlines():
            echo(line, err=True)


@contextmanager
def _keys(loop: asyncio.AbstractEventLoop, screen: LiveScreen) -> Iterator[None]:
    """Reads keys as they are pressed, if standard input is a terminal. Ctrl-C remains a signal."""
    if not os.isatty(_INPUT):
        yield
        return
    before = termios.tcgetattr(_INPUT)
    try:
        tty.setcbreak(_INPUT)
        loop.add_reader(_INPUT, screen.read_keys)
        yield
    finally:
        loop.remove_reader(_INPUT)
        termios.tcsetattr(_INPUT, termios.TCSADRAIN, before)
