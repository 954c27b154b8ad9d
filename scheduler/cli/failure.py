"""How a command says that it could not do what was asked: on stderr, in vcctl's form, with exit code 1."""

from typing import IO, Any, Final

import click

from scheduler.cli.text import echo

NOT_FOUND: Final = 404


class Failed(click.ClickException):
    """Shown as ``Failed to job run: ...``, the command's path and the message."""

    exit_code = 1

    def __init__(self, message: str, status: int = 0) -> None:
        """``status``: what the API server answered, or 0 if it is not its refusal."""
        super().__init__(message)
        self.status = status
        context = click.get_current_context(silent=True)
        words: list[str] = []
        while context is not None and context.parent is not None:
            words.insert(0, str(context.info_name))
            context = context.parent
        self._command = " ".join(words)

    def show(self, file: IO[Any] | None = None) -> None:
        for line in f"Failed to {self._command}: {self.message}".split("\n"):
            echo(line, err=True)


class Interrupted(click.exceptions.Exit):
    """Ctrl-C: the end of whatever runs until then; the exit code is the shells' one for it."""

    def __init__(self) -> None:
        super().__init__(130)
