"""``vcctl version``."""

import platform
from typing import Final

import click

from scheduler import __version__
from scheduler.cli.text import echo
from scheduler.cli.vcctl.flags import log_flags

_NOT_PROVIDED: Final = "Not provided."
_MACHINES: Final = {"x86_64": "amd64", "aarch64": "arm64"}
"""Names of Python -> names of Go."""


@click.command("version")
@log_flags
def version_command() -> None:
    """Print the version of the program."""
    machine = platform.machine()
    for label, value in (
        ("API Version", "v1alpha1"),
        ("Version", __version__),
        ("Git SHA", _NOT_PROVIDED),
        ("Built At", _NOT_PROVIDED),
        ("Go Version", f"none (Python {platform.python_version()})"),
        ("Go OS/Arch", f"{platform.system().lower()}/{_MACHINES.get(machine, machine)}"),
    ):
        echo(f"{label}: {value}")
