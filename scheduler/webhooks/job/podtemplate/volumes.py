"""Volumes of a Pod: each has one source.

The sources of today's clusters are checked as Kubernetes does; of those that name a storage system in the Pod itself
(long superseded by CSI) only that what they cannot do without is there.
"""

from collections.abc import Callable
from typing import Any, Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    required,
    too_long,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.containers import PULL_POLICIES
from scheduler.webhooks.job.podtemplate.metadata import check_metadata, check_selector
from scheduler.webhooks.job.podtemplate.projections import (
    check_config_map,
    check_downward,
    check_projected,
    check_secret,
)
from scheduler.webhooks.job.podtemplate.volume_wire import (
    ClaimSpec,
    ClaimVolume,
    ConfigMapVolume,
    CsiVolume,
    DownwardVolume,
    EmptyDir,
    EphemeralVolume,
    HostPath,
    ImageVolume,
    Nfs,
    ProjectedVolume,
    SecretVolume,
    Volume,
)
from scheduler.webhooks.quantities import QUANTITY_SYNTAX, read_quantity

_HOST_PATH_TYPES: Final = (
    "", "BlockDevice", "CharDevice", "Directory", "DirectoryOrCreate", "File", "FileOrCreate", "Socket",
)  # fmt: skip
_ACCESS_MODES: Final = ("ReadOnlyMany", "ReadWriteMany", "ReadWriteOnce", "ReadWriteOncePod")
_DRIVER_LENGTH: Final = 63
_NEEDED: Final[dict[str, tuple[str, ...]]] = {
    "gitRepo": ("repository",),
    "gcePersistentDisk": ("pdName",),
    "awsElasticBlockStore": ("volumeID",),
    "iscsi": ("targetPortal", "iqn"),
    "glusterfs": ("endpoints", "path"),
    "rbd": ("monitors", "image"),
    "cinder": ("volumeID",),
    "cephfs": ("monitors",),
    "quobyte": ("registry", "volume"),
    "flexVolume": ("driver",),
    "azureFile": ("secretName", "shareName"),
    "vsphereVolume": ("volumePath",),
    "photonPersistentDisk": ("pdID",),
    "portworxVolume": ("volumeID",),
    "azureDisk": ("diskName", "diskURI"),
    "scaleIO": ("gateway", "system", "volumeName"),
}


def check_volumes(volumes: list[Volume], path: str, good: dict[str, Volume]) -> Problems:
    """Volumes that are in order are added to ``good``, by name: only these can be mounted."""
    for index, volume in enumerate(volumes):
        where = f"{path}[{index}]"
        faults = list(_check_source(volume, where))
        if not volume.name:
            faults.append(required(f"{where}.name"))
        else:
            faults += invalid_each(f"{where}.name", volume.name, names.dns_label(volume.name))
        if volume.name in good:
            faults.append(duplicate(f"{where}.name", volume.name))
        if not faults:
            good[volume.name] = volume
        yield from faults


def _check_source(volume: Volume, path: str) -> Problems:
    """A volume without any source is an empty directory."""
    given = 0
    for attribute, key in zip(volume.__struct_fields__, volume.__struct_encode_fields__, strict=True):
        source = getattr(volume, attribute)
        if key == "name" or source is None:
            continue
        given += 1
        if given > 1:
            yield forbidden(f"{path}.{key}", "may not specify more than 1 volume type")
        elif isinstance(source, dict):
            yield from _check_needed(source, _NEEDED.get(key, ()), f"{path}.{key}")
        else:
            yield from _CHECKS[type(source)](source, f"{path}.{key}")


def _check_needed(source: dict[str, Any], needed: tuple[str, ...], path: str) -> Problems:
    for key in needed:
        if not source.get(key):
            yield required(f"{path}.{key}")


def _check_empty_dir(source: EmptyDir, path: str) -> Problems:
    if source.size_limit is None:
        return
    limit = read_quantity(source.size_limit)
    if limit is None:
        yield invalid(f"{path}.sizeLimit", str(source.size_limit), QUANTITY_SYNTAX)
    elif limit.nano < 0:
        yield forbidden(f"{path}.sizeLimit", "SizeLimit field must be a valid resource quantity")


def _check_host_path(source: HostPath, path: str) -> Problems:
    if not source.path:
        yield required(f"{path}.path")
        return
    yield from invalid_each(f"{path}.path", source.path, names.no_backsteps(source.path))
    if source.type not in _HOST_PATH_TYPES:
        yield unsupported(f"{path}.type", source.type, _HOST_PATH_TYPES)


def _check_nfs(source: Nfs, path: str) -> Problems:
    for key, value in (("server", source.server), ("path", source.path)):
        if not value:
            yield required(f"{path}.{key}")
    if not source.path.startswith("/"):
        yield invalid(f"{path}.path", source.path, "must be an absolute path")


def _check_claim(source: ClaimVolume, path: str) -> Problems:
    if not source.claim_name:
        yield required(f"{path}.claimName")


def _check_csi(source: CsiVolume, path: str) -> Problems:
    driver = source.driver
    if not driver:
        yield required(f"{path}.driver")
    else:
        if len(driver.encode("utf-8", "surrogatepass")) > _DRIVER_LENGTH:
            yield too_long(f"{path}.driver", _DRIVER_LENGTH)
        yield from invalid_each(f"{path}.driver", driver, names.dns_subdomain(driver.lower()))
    if source.node_publish_secret_ref is not None:
        name = source.node_publish_secret_ref.name
        if not name:
            yield required(f"{path}.nodePublishSecretRef.name")
        else:
            yield from invalid_each(f"{path}.name", name, names.dns_subdomain(name))


def _check_image(source: ImageVolume, path: str) -> Problems:
    if source.pull_policy and source.pull_policy not in PULL_POLICIES:
        yield unsupported(f"{path}.pullPolicy", source.pull_policy, PULL_POLICIES)


def _check_ephemeral(source: EphemeralVolume, path: str) -> Problems:
    where, template = f"{path}.volumeClaimTemplate", source.volume_claim_template
    if template is None:
        yield required(where)
        return
    meta = template.metadata
    yield from check_metadata(meta, f"{where}.metadata")
    yield from _check_claim_spec(template.spec, f"{where}.spec")


def _check_claim_spec(spec: ClaimSpec, path: str) -> Problems:
    modes = spec.access_modes
    if not modes:
        yield required(f"{path}.accessModes", "at least 1 access mode is required")
    yield from check_selector(spec.selector, f"{path}.selector")
    for mode in modes:
        if mode not in _ACCESS_MODES:
            yield unsupported(f"{path}.accessModes", mode, _ACCESS_MODES)
    if "ReadWriteOncePod" in modes and set(modes) & set(_ACCESS_MODES[:3]):
        yield forbidden(f"{path}.accessModes", "may not use ReadWriteOncePod with other access modes")
    where, size = f"{path}.resources[storage]", spec.resources.requests.get("storage")
    if size is None:
        yield required(where)
    else:
        amount = read_quantity(size)
        if amount is None:
            yield invalid(where, str(size), QUANTITY_SYNTAX)
        elif amount.nano <= 0:
            yield invalid(where, str(amount), "must be greater than zero")
    if spec.storage_class_name:
        wrong = names.dns_subdomain(spec.storage_class_name)
        yield from invalid_each(f"{path}.storageClassName", spec.storage_class_name, wrong)
    if spec.volume_mode is not None and spec.volume_mode not in ("Block", "Filesystem"):
        yield unsupported(f"{path}.volumeMode", spec.volume_mode, ("Block", "Filesystem"))


_CHECKS: Final[dict[type, Callable[[Any, str], Problems]]] = {
    EmptyDir: _check_empty_dir,
    HostPath: _check_host_path,
    SecretVolume: check_secret,
    Nfs: _check_nfs,
    ClaimVolume: _check_claim,
    DownwardVolume: check_downward,
    ConfigMapVolume: check_config_map,
    ProjectedVolume: check_projected,
    CsiVolume: _check_csi,
    EphemeralVolume: _check_ephemeral,
    ImageVolume: _check_image,
}
