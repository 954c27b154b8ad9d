"""Errors that end a command: what it prints on stderr, in vcctl's form, and its exit code."""

from typing import IO, Any, Final

import click

from scheduler.cli.text import echo

BAD_REQUEST: Final = 400
FORBIDDEN: Final = 403
NOT_FOUND: Final = 404


class CommandError(click.ClickException):
    """Ends the command with exit code 1. It is printed as ``Failed to job run: ...``: the command and the message."""

    exit_code = 1

    def __init__(self, message: str, status: int = 0, answer: str = "") -> None:
        """``status`` and ``answer``: the HTTP status and the message of the API server's refusal; 0 and "" if no
        refusal is the cause."""
        super().__init__(message)
        self.status = status
        self.answer = answer
        context = click.get_current_context(silent=True)
        words: list[str] = []
        while context is not None and context.parent is not None:
            words.insert(0, str(context.info_name))
            context = context.parent
        self.command = tuple(words)
        """The sub-commands, such as ``("job", "run")``."""

    def show(self, file: IO[Any] | None = None) -> None:
        for line in f"Failed to {' '.join(self.command)}: {self.message}".split("\n"):
            echo(line, err=True)


class Interrupted(click.exceptions.Exit):
    """Ctrl-C. Ends the command with exit code 130, as shells do."""

    def __init__(self) -> None:
        super().__init__(130)
