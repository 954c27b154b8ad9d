"""Security contexts of Pods and containers."""

import re
from collections.abc import Mapping
from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    among,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    required,
    too_long,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.container_wire import SecurityContext
from scheduler.webhooks.job.podtemplate.pod_wire import PodSpec, Sysctl
from scheduler.webhooks.job.podtemplate.wire import Profile

_PROFILES: Final = ("Localhost", "RuntimeDefault", "Unconfined")
_PATH_LENGTH: Final = 4095
_SYSCTL_LENGTH: Final = 253
_SYSCTL_SEGMENT: Final = "[a-z0-9]([-_a-z0-9]*[a-z0-9])?"
_SYSCTL: Final = rf"({_SYSCTL_SEGMENT}[\./])*{_SYSCTL_SEGMENT}"
_IPC_SYSCTLS: Final = re.compile(
    r"kernel\.(sem|shm|shmall|shmmax|shmmni|shm_rmid_forced|msg|msgmax|msgmnb|msgmni)|fs\.mqueue\..*", re.DOTALL
)


def check_security(context: SecurityContext | None, host_users: bool, path: str) -> Problems:
    """Of a container."""
    if context is None:
        return
    yield from _check_ids({"runAsUser": context.run_as_user, "runAsGroup": context.run_as_group}, path)
    if context.proc_mount is not None:
        yield from among(f"{path}.procMount", context.proc_mount, ("Default", "Unmasked"))
        if host_users and context.proc_mount == "Unmasked":
            text = "`hostUsers` must be false to use `Unmasked`"
            yield invalid(f"{path}.procMount", context.proc_mount, text)
    yield from _check_seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    if context.allow_privilege_escalation is False:
        if context.privileged:
            text = "cannot set `allowPrivilegeEscalation` to false and `privileged` to true"
            yield invalid(path, {"allowPrivilegeEscalation": False, "privileged": True}, text)
        added = context.capabilities.add if context.capabilities is not None else []
        if "CAP_SYS_ADMIN" in added:
            text = "cannot set `allowPrivilegeEscalation` to false and `capabilities.Add` CAP_SYS_ADMIN"
            yield invalid(path, {"allowPrivilegeEscalation": False, "capabilities": {"add": added}}, text)
    yield from _check_app_armor(context.app_armor_profile, f"{path}.appArmorProfile")


def check_pod_security(spec: PodSpec, path: str) -> Problems:
    context = spec.security_context
    ids = {"fsGroup": context.fs_group, "runAsUser": context.run_as_user, "runAsGroup": context.run_as_group}
    yield from _check_ids(ids, path)
    groups = {f"supplementalGroups[{index}]": group for index, group in enumerate(context.supplemental_groups)}
    yield from _check_ids(groups, path)
    if spec.share_process_namespace and spec.host_pid:
        text = "ShareProcessNamespace and HostPID cannot both be enabled"
        yield invalid(f"{path}.shareProcessNamespace", True, text)
    yield from _check_sysctls(context.sysctls, spec, f"{path}.sysctls")
    yield from among(f"{path}.fsGroupChangePolicy", context.fs_group_change_policy, ("Always", "OnRootMismatch"))
    yield from _check_seccomp(context.seccomp_profile, f"{path}.seccompProfile")
    yield from _check_app_armor(context.app_armor_profile, f"{path}.appArmorProfile")
    policy = context.supplemental_groups_policy
    yield from among(f"{path}.supplementalGroupsPolicy", policy, ("Merge", "Strict"))
    yield from among(f"{path}.seLinuxChangePolicy", context.se_linux_change_policy, ("MountOption", "Recursive"))


def check_host_users(spec: PodSpec, path: str) -> Problems:
    """A Pod with users of its own shares nothing else with its host."""
    if spec.host_users is not False:
        return
    text = "when `hostUsers` is false"
    for key, shared in (("hostNetwork", spec.host_network), ("HostPID", spec.host_pid), ("HostIPC", spec.host_ipc)):
        if shared:
            yield forbidden(f"{path}.{key}", text)
    for key, containers in (("initContainers", spec.init_containers), ("containers", spec.containers)):
        for index, container in enumerate(containers):
            if container.volume_devices:
                yield forbidden(f"{path}.{key}[{index}].volumeDevices", text)


def _check_ids(ids: Mapping[str, int | None], path: str) -> Problems:
    for key, number in ids.items():
        if number is not None:
            for text in names.between(number, 0, names.LARGEST_INT32):
                yield invalid(f"{path}.{key}", number, text)


def _check_seccomp(profile: Profile | None, path: str) -> Problems:
    if profile is None:
        return
    if not profile.type:
        yield required(f"{path}.type", "type is required when seccompProfile is set")
    elif profile.type not in _PROFILES:
        yield unsupported(f"{path}.type", profile.type, _PROFILES)
    where, local = f"{path}.localhostProfile", profile.localhost_profile
    if profile.type == "Localhost":
        if local is None:
            yield required(where, "must be set when seccomp type is Localhost")
        else:
            yield from invalid_each(where, local, names.descending_path(local))
    elif local is not None:
        shown = {"Type": profile.type, "LocalhostProfile": local}
        yield invalid(where, shown, "can only be set when seccomp type is Localhost")


def _check_app_armor(profile: Profile | None, path: str) -> Problems:
    if profile is None:
        return
    where, local = f"{path}.localhostProfile", profile.localhost_profile
    if profile.type == "Localhost":
        if local is None or not local:
            yield required(where, "must be set when AppArmor type is Localhost")
        elif local != local.strip():
            yield invalid(where, local, "must not be padded with whitespace")
        if local is not None and len(local.encode("utf-8", "surrogatepass")) > _PATH_LENGTH:
            yield too_long(where, _PATH_LENGTH)
    elif profile.type in _PROFILES:
        if local is not None:
            yield invalid(where, local, "can only be set when AppArmor type is Localhost")
    elif not profile.type:
        yield required(f"{path}.type", "type is required when appArmorProfile is set")
    else:
        yield unsupported(f"{path}.type", profile.type, _PROFILES)


def _check_sysctls(sysctls: list[Sysctl], spec: PodSpec, path: str) -> Problems:
    seen: set[str] = set()
    for index, sysctl in enumerate(sysctls):
        where, name = f"{path}[{index}].name", sysctl.name
        if not name:
            yield required(where)
        elif len(name) > _SYSCTL_LENGTH or re.fullmatch(_SYSCTL, name) is None:
            yield invalid(where, name, f"must have at most {_SYSCTL_LENGTH} characters and match regex ^{_SYSCTL}$")
        elif name in seen:
            yield duplicate(where, name)
        seen.add(name)
        dotted = name.replace("/", ".")
        if spec.host_network and dotted.startswith("net."):
            yield invalid(where, name, "may not be specified when 'hostNetwork' is true")
        elif spec.host_ipc and _IPC_SYSCTLS.fullmatch(dotted):
            yield invalid(where, name, "may not be specified when 'hostIPC' is true")
