"""``volcano-py version``: the version of the program."""

import platform

import click

from scheduler import __version__
from scheduler.cli.output import JSON, TABLE, YAML, output_option, print_object
from scheduler.cli.text import echo


@click.command("version")
@output_option(TABLE, JSON, YAML)
def version_command(output: str) -> None:
    """Print the version of the program, of Python and of the platform."""
    versions = {
        "version": __version__,
        "python": platform.python_version(),
        "platform": f"{platform.system().lower()}/{platform.machine()}",
    }
    if output != TABLE:
        print_object({"clientVersion": versions}, output)
        return
    echo(f"volcano-py {versions['version']} (Python {versions['python']}, {versions['platform']})")
