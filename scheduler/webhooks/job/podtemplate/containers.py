"""Containers and init containers of a Pod."""

from collections.abc import Collection, Mapping
from dataclasses import dataclass

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    one_of,
    required,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.container_wire import Container, Port
from scheduler.webhooks.job.podtemplate.env import check_env, check_env_from
from scheduler.webhooks.job.podtemplate.mounts import check_devices, check_mounts
from scheduler.webhooks.job.podtemplate.pod_wire import PodSpec
from scheduler.webhooks.job.podtemplate.probes import check_life, forbid_life
from scheduler.webhooks.job.podtemplate.resources import check_resources
from scheduler.webhooks.job.podtemplate.security import check_security
from scheduler.webhooks.job.podtemplate.volume_wire import Volume

PULL_POLICIES = ("Always", "IfNotPresent", "Never")
_PROTOCOLS = ("SCTP", "TCP", "UDP")
_MESSAGE_POLICIES = ("File", "FallbackToLogsOnError")


@dataclass(frozen=True, slots=True)
class Surroundings:
    """What a container may refer to."""

    spec: PodSpec
    volumes: Mapping[str, Volume]
    """Those that are in order, by name."""
    restart_policy: str
    """Of the Pod, defaulted."""
    claims: Collection[str]
    """Names of the Pod's claims of devices."""

    @property
    def system(self) -> str | None:
        return None if self.spec.os is None else self.spec.os.name


def check_containers(around: Surroundings, path: str) -> Problems:
    containers = around.spec.containers
    if not containers:
        yield required(path)
        return
    seen: set[str] = set()
    for index, container in enumerate(containers):
        where = f"{path}[{index}]"
        yield from _check_container(container, around, where)
        if container.name in seen:
            yield duplicate(f"{where}.name", container.name)
        seen.add(container.name)
        yield from check_life(container, around.spec.termination_grace_period_seconds, around.system, where)
        if container.restart_policy is not None:
            yield forbidden(f"{where}.restartPolicy", "may not be set for non-init containers")
    yield from _check_host_ports(containers, path)


def check_init_containers(around: Surroundings, path: str) -> Problems:
    seen = {container.name for container in around.spec.containers}
    for index, container in enumerate(around.spec.init_containers):
        where = f"{path}[{index}]"
        yield from _check_container(container, around, where)
        yield from _check_init_restarts(container, where)
        if container.name in seen:
            yield duplicate(f"{where}.name", container.name)
        elif container.name:
            seen.add(container.name)
        yield from _check_host_ports([container], path)
        if container.restart_policy == "Always":
            yield from check_life(container, around.spec.termination_grace_period_seconds, around.system, where)
        else:
            yield from forbid_life(container, where)
        if container.resize_policy:
            shown = [each.resource_name for each in container.resize_policy]
            yield invalid(f"{where}.resizePolicy", shown, "must not be set for init containers")


def _check_init_restarts(container: Container, path: str) -> Problems:
    policy = container.restart_policy
    if policy is None:
        if container.restart_policy_rules:
            yield required(f"{path}.restartPolicy", "must specify restartPolicy when restart rules are used")
    elif policy != "Always":
        yield unsupported(f"{path}.restartPolicy", policy, ("Always",))


def _check_container(container: Container, around: Surroundings, path: str) -> Problems:
    """What holds for every container."""
    if not container.name:
        yield required(f"{path}.name")
    else:
        yield from invalid_each(f"{path}.name", container.name, names.dns_label(container.name))
    if not container.image:
        yield required(f"{path}.image")
    policy = container.termination_message_policy
    if policy and policy not in _MESSAGE_POLICIES:
        yield unsupported(f"{path}.terminationMessagePolicy", policy, _MESSAGE_POLICIES)
    yield from _check_ports(container.ports, f"{path}.ports")
    yield from check_env(container.env, f"{path}.env")
    yield from check_env_from(container.env_from, f"{path}.envFrom")
    yield from check_mounts(container, around.volumes, f"{path}.volumeMounts")
    yield from check_devices(container, around.volumes, f"{path}.volumeDevices")
    policy = container.image_pull_policy
    if policy and policy not in PULL_POLICIES:
        yield unsupported(f"{path}.imagePullPolicy", policy, PULL_POLICIES)
    yield from check_resources(container.resources, around.claims, f"{path}.resources")
    yield from _check_resizing(container, around.restart_policy, f"{path}.resizePolicy")
    yield from check_security(
        container.security_context, around.spec.host_users is not False, f"{path}.securityContext"
    )


def _check_ports(ports: list[Port], path: str) -> Problems:
    seen: set[str] = set()
    for index, port in enumerate(ports):
        where = f"{path}[{index}]"
        if port.name:
            wrong = names.port_name(port.name)
            yield from invalid_each(f"{where}.name", port.name, wrong)
            if not wrong and port.name in seen:
                yield duplicate(f"{where}.name", port.name)
            elif not wrong:
                seen.add(port.name)
        if not port.container_port:
            yield required(f"{where}.containerPort")
        for key, number in (("containerPort", port.container_port), ("hostPort", port.host_port)):
            if number:
                for text in names.port_number(number):
                    yield invalid(f"{where}.{key}", number, text)
        yield from one_of(f"{where}.protocol", port.protocol or "TCP", _PROTOCOLS)


def _check_host_ports(containers: list[Container], path: str) -> Problems:
    """No two containers that run side by side hold one port of the host."""
    seen: set[str] = set()
    for index, container in enumerate(containers):
        for number, port in enumerate(container.ports):
            if not port.host_port:
                continue
            key = f"{port.protocol or 'TCP'}/{port.host_ip}/{port.host_port}"
            if key in seen:
                yield duplicate(f"{path}[{index}].ports[{number}].hostPort", key)
            seen.add(key)


def _check_resizing(container: Container, restart_policy: str, path: str) -> Problems:
    seen: set[str] = set()
    for index, policy in enumerate(container.resize_policy):
        if policy.resource_name in seen:
            yield duplicate(f"{path}[{index}]", policy.resource_name)
        seen.add(policy.resource_name)
        yield from one_of(path, policy.resource_name, ("cpu", "memory"))
        yield from one_of(path, policy.restart_policy, ("NotRequired", "RestartContainer"))
        if restart_policy == "Never" and policy.restart_policy != "NotRequired":
            text = "must be 'NotRequired' when pod `restartPolicy` is 'Never'"
            yield invalid(path, policy.restart_policy, text)
