"""The flags that the commands of ``vcctl`` share."""

import os
from pathlib import Path
from typing import Final

import click

from scheduler.api.names import DEFAULT_NAMESPACE
from scheduler.cli.completion import names_of
from scheduler.cli.connection import Connection
from scheduler.cli.errors import CommandError
from scheduler.cli.flags import Decorator, boolean, options_as, without_effect

log_flags: Final = without_effect("--log-flush-frequency", "--vmodule", "--v", "-v")
"""Adds the flags of logs, which have no effect."""


def _kubeconfig(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The flag, else KUBECONFIG, else ~/.kube/config, which precede the service account of a Pod."""
    from scheduler.cluster.kube.transport.plain_credentials import in_cluster

    if value or not in_cluster():
        return value
    files = os.environ.get("KUBECONFIG") or str(Path("~/.kube/config").expanduser())
    return next((file for file in files.split(os.pathsep) if Path(file).is_file()), "")


def connection_flags(namespace: str = "", *, all_namespaces: bool = False, variable: str | None = None) -> Decorator:
    """Adds the flags of a connection to a command, whose function takes the parameter ``connection``.

    ``namespace``: the short flag of ``--namespace``; "" for a command without it. ``variable``: the environment
    variable with its default.
    """
    options: list[Decorator] = [
        click.option(
            "-k", "--kubeconfig", metavar="FILE", default="", callback=_kubeconfig,
            help="Credentials for the API server.",
        ),
        click.option("-s", "--master", metavar="URL", default="", help="Address of the API server."),
        log_flags,
    ]  # fmt: skip
    if namespace:
        option = click.option(
            namespace, "--namespace", default=DEFAULT_NAMESPACE, show_default=True, envvar=variable,
            show_envvar=variable is not None, help="Namespace.", shell_complete=names_of("NAMESPACE"),
        )  # fmt: skip
        options.append(option)
    if all_namespaces:
        options.append(boolean("--all-namespaces", default=False, help="All namespaces."))
    return options_as("connection", Connection, *options)


def name_flag(kind: str, short: str, *, default: str = "") -> Decorator:
    """Adds ``--name`` to a command, whose function takes the parameter ``name``. ``kind``: the name of a constant of
    ``scheduler.api.kinds``, for completion."""
    return click.option(
        short, "--name", default=default, show_default=bool(default), help="Name.", shell_complete=names_of(kind)
    )


def required(value: str, missing: str) -> str:
    """Returns the value of a flag. Raises CommandError if it is empty."""
    if not value:
        raise CommandError(missing)
    return value
