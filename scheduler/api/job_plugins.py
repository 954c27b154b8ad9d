"""The arguments of the job plugins, which admission checks and the controllers use.

A vcjob names plugins with arguments in ``spec.plugins``. What the plugins do is in ``scheduler.controllers``. Arguments
are in the syntax of Go's flags: ``-name=value``, ``--name=value`` and ``--name`` ``value`` as two items are the same. A
switch is ``--name`` or ``--name=false``. Volcano logs what it cannot read and goes on with defaults; here that is an
ArgumentError.
"""

import re
import reprlib
from collections.abc import Mapping, Sequence
from dataclasses import Field, dataclass, field, fields
from typing import Any, Final, TypeVar

from scheduler.api import batch

PORTS = range(1, 65536)
_NUMBER = re.compile(r"0|[1-9][0-9]{0,8}")
_SWITCHES = dict.fromkeys(("1", "t", "T", "true", "True", "TRUE"), True) | dict.fromkeys(
    ("0", "f", "F", "false", "False", "FALSE"), False
)
OptionsT = TypeVar("OptionsT")


class ArgumentError(ValueError):
    """The arguments of a plugin cannot be used; the message says which and why."""


def option(default: Any, *flags: str, among: range = PORTS) -> Any:
    """A field of options: its flags if they are not the field's name with dashes, and the numbers allowed."""
    return field(default=default, metadata={"flags": flags, "among": among})


def parse(options: type[OptionsT], arguments: Sequence[str]) -> OptionsT:
    """Parses the options; a field's default determines its type: text, number or switch. Raises ArgumentError."""
    known: dict[str, Field[Any]] = {}
    for each in fields(options):  # type: ignore[arg-type]  # a dataclass
        for flag in each.metadata.get("flags") or (each.name.replace("_", "-"),):
            known[flag] = each
    given: dict[str, Any] = {}
    words = iter(arguments)
    for word in words:
        if word == "--":
            break
        dashes = 2 if word.startswith("--") else 1 if word.startswith("-") else 0
        flag, equals, value = word[dashes:].partition("=")
        if not dashes or flag not in known:
            # Without its value, which may be a misnamed key.
            raise ArgumentError(f"argument {reprlib.repr(word.partition('=')[0])} is unknown; {_allowed(known)}")
        wanted = known[flag]
        if not equals:
            if isinstance(wanted.default, bool):
                value = "true"
            else:
                following = next(words, None)
                if following is None:
                    raise ArgumentError(f"argument --{flag} needs a value")
                value = following
        given[wanted.name] = _value(flag, wanted, value)
    return options(**given)


def _value(flag: str, wanted: "Field[Any]", text: str) -> str | int | bool:
    if isinstance(wanted.default, bool):
        if text not in _SWITCHES:
            raise ArgumentError(f"argument --{flag}={reprlib.repr(text)} must be true or false")
        return _SWITCHES[text]
    if isinstance(wanted.default, int):
        among: range = wanted.metadata.get("among", PORTS)
        if not _NUMBER.fullmatch(text) or int(text) not in among:
            raise ArgumentError(
                f"argument --{flag}={reprlib.repr(text)} must be a whole number from {among[0]} to {among[-1]}"
            )
        return int(text)
    return text


def _allowed(known: dict[str, "Field[Any]"]) -> str:
    if not known:
        return "it takes none"
    return "allowed are " + ", ".join(f"--{flag}" for flag in known)


ROOT_DIRECTORY: Final = "/root/.ssh"
ED25519: Final = "ed25519"
RSA: Final = "rsa"
KEY_TYPES: Final = (ED25519, RSA)
WAIT_CONTAINER: Final = "wait-for-master"
"""The init container in which workers wait for their master (pytorch)."""


@dataclass(frozen=True)
class EnvOptions:
    """The plugin has no options."""


@dataclass(frozen=True)
class HcclRankOptions:
    master: str = "master"
    worker: str = "worker"


@dataclass(frozen=True)
class MpiOptions:
    master: str = "master"
    worker: str = "worker"
    port: int = option(22)


@dataclass(frozen=True)
class PytorchOptions:
    master: str = "master"
    worker: str = "worker"
    port: int = option(23456)
    wait_master_enabled: bool = False
    wait_master_timeout: int = option(300, among=range(1, 86_401))
    """Seconds."""
    wait_master_image: str = "busybox:1.36.1"


@dataclass(frozen=True)
class RayOptions:
    head: str = "head"
    head_container: str = option("head", "headContainer")
    worker: str = "worker"
    worker_container: str = option("worker", "workerContainer")
    port: int = option(6379)
    dashboard_port: int = option(8265, "dashboardPort")
    client_port: int = option(10001, "clientPort", "clientServerPort")
    """Volcano's program knows the first flag, its guide the second."""


@dataclass(frozen=True)
class SshOptions:
    directory: str = option(ROOT_DIRECTORY, "ssh-key-file-path")
    private_key: str = option("", "ssh-private-key")
    public_key: str = option("", "ssh-public-key")
    key_type: str = option(ED25519, "ssh-key-type")
    """The type of a generated key. RSA is for images whose ssh does not know Ed25519, or whose programs read RSA keys
    only."""
    port: int = option(22, "ssh-port")
    no_root: bool = False
    """No effect. Older versions of Volcano had the flag, and manifests still set it."""

    def __post_init__(self) -> None:
        """Raises ArgumentError."""
        if not self.directory.startswith("/") or ":" in self.directory:
            raise ArgumentError(
                f"argument --ssh-key-file-path={reprlib.repr(self.directory)} must be an absolute path without ':'"
            )
        if self.public_key and not self.private_key:
            raise ArgumentError("argument --ssh-public-key needs the key that fits it: --ssh-private-key=...")
        if self.key_type not in KEY_TYPES:
            raise ArgumentError(
                f"argument --ssh-key-type={reprlib.repr(self.key_type)} must be one of {', '.join(KEY_TYPES)}"
            )


@dataclass(frozen=True)
class SvcOptions:
    publish_not_ready_addresses: bool = False
    disable_network_policy: bool = False
    inject_hosts_env: bool = True


@dataclass(frozen=True)
class TensorflowOptions:
    ps: str = "ps"
    worker: str = "worker"
    chief: str = "chief"
    evaluator: str = "evaluator"
    port: int = option(2222)


_OPTIONS: Final[Mapping[str, type[Any]]] = {
    "env": EnvOptions,
    "hcclrank": HcclRankOptions,
    "mpi": MpiOptions,
    "pytorch": PytorchOptions,
    "ray": RayOptions,
    "ssh": SshOptions,
    "svc": SvcOptions,
    "tensorflow": TensorflowOptions,
}


def ray_head(spec: batch.JobSpec, options: RayOptions) -> tuple[batch.TaskSpec, dict[str, Any]]:
    """The task and the container of the head. Raises ArgumentError if the job lacks a task or a container that the
    arguments name."""
    tasks = {task.name: task for task in spec.tasks}
    if options.head not in tasks:
        raise ArgumentError(f"the job has no task {options.head!r}; name it by --head")
    head = _container(tasks[options.head], options.head_container, "headContainer")
    if options.worker in tasks:
        _container(tasks[options.worker], options.worker_container, "workerContainer")
    return tasks[options.head], head


def _container(task: batch.TaskSpec, name: str, flag: str) -> dict[str, Any]:
    """A main container of a template. Raises ArgumentError."""
    spec = task.template.get("spec")
    containers = spec.get("containers") if isinstance(spec, dict) else None
    for each in containers if isinstance(containers, list) else ():
        if isinstance(each, dict) and each.get("name") == name:
            return each
    raise ArgumentError(f"task {task.name} has no container {name!r}; name it by --{flag}")


def argument_problems(spec: batch.JobSpec) -> list[str]:
    """Why plugins of a job cannot be used with their arguments, sorted by plugin. Unknown plugins have no problem
    here."""
    problems = []
    for name, arguments in sorted((spec.plugins or {}).items()):
        if name in _OPTIONS:
            try:
                options = parse(_OPTIONS[name], arguments or ())
                if isinstance(options, RayOptions):
                    ray_head(spec, options)
            except ArgumentError as error:
                problems.append(f"spec.plugins: plugin {name}: {error}")
    return problems
