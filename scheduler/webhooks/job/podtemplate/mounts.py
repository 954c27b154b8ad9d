"""Where containers see volumes: as directories and as block devices."""

from collections.abc import Mapping

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    among,
    forbidden,
    invalid,
    invalid_each,
    not_found,
    required,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.container_wire import Container, VolumeMount
from scheduler.webhooks.job.podtemplate.volume_wire import Volume

_PROPAGATIONS = ("Bidirectional", "HostToContainer", "None")
_RECURSIVE = ("Disabled", "Enabled", "IfPossible")


def check_mounts(container: Container, volumes: Mapping[str, Volume], path: str) -> Problems:
    """``volumes``: those of the Pod that are in order, by name."""
    devices = {device.name: device.device_path for device in container.volume_devices}
    device_paths = set(devices.values())
    seen: set[str] = set()
    for index, mount in enumerate(container.volume_mounts):
        where = f"{path}[{index}]"
        if not mount.name:
            yield required(f"{where}.name")
        if mount.name not in volumes:
            yield not_found(f"{where}.name", mount.name)
        if not mount.mount_path:
            yield required(f"{where}.mountPath")
        if mount.mount_path in seen:
            yield invalid(f"{where}.mountPath", mount.mount_path, "must be unique")
        seen.add(mount.mount_path)
        if mount.name in devices:
            yield invalid(f"{where}.name", mount.name, "must not already exist in volumeDevices")
        if mount.mount_path in device_paths:
            text = "must not already exist as a path in volumeDevices"
            yield invalid(f"{where}.mountPath", mount.mount_path, text)
        yield from _check_sub_paths(mount, path, where)
        yield from _check_propagation(mount, container, f"{path}.mountPropagation")
        yield from _check_recursion(mount, f"{path}.recursiveReadOnly")


def _check_sub_paths(mount: VolumeMount, path: str, where: str) -> Problems:
    yield from invalid_each(f"{path}.subPath", mount.sub_path, names.descending_path(mount.sub_path))
    if mount.sub_path and mount.sub_path_expr:
        text = "subPathExpr and subPath are mutually exclusive"
        yield invalid(f"{where}.subPathExpr", mount.sub_path_expr, text)
    yield from invalid_each(f"{path}.subPathExpr", mount.sub_path_expr, names.descending_path(mount.sub_path_expr))


def _check_propagation(mount: VolumeMount, container: Container, path: str) -> Problems:
    yield from among(path, mount.mount_propagation, _PROPAGATIONS)
    security = container.security_context
    if mount.mount_propagation == "Bidirectional" and not (security is not None and security.privileged):
        yield forbidden(path, "Bidirectional mount propagation is available only to privileged containers")


def _check_recursion(mount: VolumeMount, path: str) -> Problems:
    wanted = mount.recursive_read_only
    if wanted is None or wanted == "Disabled":
        return
    if wanted not in _RECURSIVE:
        yield unsupported(path, wanted, _RECURSIVE)
        return
    if not mount.read_only:
        yield forbidden(path, "may only be specified when readOnly is true")
    if mount.mount_propagation not in (None, "None"):
        yield forbidden(path, "may only be specified when mountPropagation is None or not specified")


def check_devices(container: Container, volumes: Mapping[str, Volume], path: str) -> Problems:
    mounts = {mount.name: mount.mount_path for mount in container.volume_mounts}
    mount_paths = set(mounts.values())
    seen_names: set[str] = set()
    seen_paths: set[str] = set()
    for index, device in enumerate(container.volume_devices):
        where = f"{path}[{index}]"
        name, target = device.name, device.device_path
        volume = volumes.get(name)
        if not name:
            yield required(f"{where}.name")
        if name in seen_names:
            yield invalid(f"{where}.name", name, "must be unique")
        if volume is None:
            yield not_found(f"{where}.name", name)
        elif volume.persistent_volume_claim is None and volume.ephemeral is None:
            text = "can only use volume source type of PersistentVolumeClaim or Ephemeral for block mode"
            yield invalid(f"{where}.name", name, text)
        if not target:
            yield required(f"{where}.devicePath")
        if target in seen_paths:
            yield invalid(f"{where}.devicePath", target, "must be unique")
        if names.no_backsteps(target):
            yield invalid(f"{where}.devicePath", target, "can not contain backsteps ('..')")
        else:
            seen_paths.add(target)
        if name in mounts:
            yield invalid(f"{where}.name", name, "must not already exist in volumeMounts")
        if target in mount_paths:
            yield invalid(f"{where}.devicePath", target, "must not already exist as a path in volumeMounts")
        if name:
            seen_names.add(name)
