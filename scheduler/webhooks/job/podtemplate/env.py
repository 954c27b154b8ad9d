"""The environment of containers, and the fields of the Pod that variables and files show."""

from typing import Final

from scheduler.api.amount import parse_amount
from scheduler.api.quantity import QuantityError
from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, invalid, invalid_each, required, unsupported
from scheduler.webhooks.job.podtemplate.container_wire import EnvFrom, EnvSource, EnvVar, FileKeyRef, KeyRef
from scheduler.webhooks.job.podtemplate.wire import FieldRef, ResourceFieldRef
from scheduler.webhooks.quantities import QUANTITY_SYNTAX

ENV_FIELDS: Final = (
    "metadata.name", "metadata.namespace", "metadata.uid", "spec.nodeName", "spec.serviceAccountName",
    "status.hostIP", "status.hostIPs", "status.podIP", "status.podIPs",
)  # fmt: skip
VOLUME_FIELDS: Final = (
    "metadata.annotations", "metadata.labels", "metadata.name", "metadata.namespace", "metadata.uid",
)  # fmt: skip
_SHOWN_FIELDS: Final = frozenset(
    (*ENV_FIELDS, *VOLUME_FIELDS, "spec.restartPolicy", "spec.schedulerName", "status.phase")
)
_RESOURCES: Final = tuple(
    f"{kind}.{name}" for kind in ("limits", "requests") for name in ("cpu", "ephemeral-storage", "memory")
)
_HUGE_PAGES: Final = ("limits.hugepages-", "requests.hugepages-")
_CPU_DIVISORS: Final = ("1m", "1")
_BYTE_DIVISORS: Final = ("1", "1k", "1M", "1G", "1T", "1P", "1E", "1Ki", "1Mi", "1Gi", "1Ti", "1Pi", "1Ei")


def check_env(variables: list[EnvVar], path: str) -> Problems:
    for index, variable in enumerate(variables):
        where = f"{path}[{index}]"
        if not variable.name:
            yield required(f"{where}.name")
        else:
            yield from invalid_each(f"{where}.name", variable.name, names.env_name(variable.name))
        if variable.value_from is not None:
            yield from _check_source(variable.value_from, variable.value, f"{where}.valueFrom")


def _check_source(source: EnvSource, value: str, path: str) -> Problems:
    given = 0
    if source.field_ref is not None:
        given += 1
        yield from check_field_ref(source.field_ref, ENV_FIELDS, f"{path}.fieldRef")
    if source.resource_field_ref is not None:
        given += 1
        yield from check_resource_ref(source.resource_field_ref, f"{path}.resourceFieldRef")
    for key, ref in (("configMapKeyRef", source.config_map_key_ref), ("secretKeyRef", source.secret_key_ref)):
        if ref is not None:
            given += 1
            yield from _check_key_ref(ref, f"{path}.{key}")
    if source.file_key_ref is not None:
        given += 1
        yield from _check_file_ref(source.file_key_ref, f"{path}.fileKeyRef")
    if not given:
        text = "must specify one of: `fieldRef`, `resourceFieldRef`, `configMapKeyRef` or `secretKeyRef`"
        yield invalid(path, "", text)
    elif value:
        yield invalid(path, "", "may not be specified when `value` is not empty")
    elif given > 1:
        yield invalid(path, "", "may not have more than one field specified at a time")


def check_field_ref(ref: FieldRef, fields: tuple[str, ...], path: str) -> Problems:
    """``fields``: those that may be named without a subscript."""
    if not ref.api_version:
        yield required(f"{path}.apiVersion")
        return
    where, field = f"{path}.fieldPath", ref.field_path
    if not field:
        yield required(where)
        return
    base, subscripted, key = field.removesuffix("']").partition("['")
    if ref.api_version != "v1":
        yield invalid(where, field, f"error converting fieldPath: unsupported pod version: {ref.api_version}")
    elif field.endswith("']") and subscripted and base:
        if base not in ("metadata.annotations", "metadata.labels"):
            text = f"error converting fieldPath: field label does not support subscript: {field}"
            yield invalid(where, field, text)
        else:
            key = key.lower() if base == "metadata.annotations" else key
            yield from invalid_each(path, key, names.qualified_name(key))
    elif field not in _SHOWN_FIELDS and field != "spec.host":
        yield invalid(where, field, f"error converting fieldPath: field label not supported: {field}")
    else:
        name = "spec.nodeName" if field == "spec.host" else field
        if name not in fields:
            yield unsupported(where, name, fields)


def check_resource_ref(ref: ResourceFieldRef, path: str, container_needed: bool = False) -> Problems:
    name = ref.resource
    if container_needed and not ref.container_name:
        yield required(f"{path}.containerName")
    elif not name:
        yield required(f"{path}.resource")
    elif name not in _RESOURCES and not name.startswith(_HUGE_PAGES):
        yield unsupported(f"{path}.resource", name, _RESOURCES)
    try:
        divisor = str(parse_amount(ref.divisor))
    except QuantityError:
        yield invalid(f"{path}.divisor", str(ref.divisor), QUANTITY_SYNTAX)
        return
    if divisor == "0":
        return
    if name in ("limits.cpu", "requests.cpu"):
        if divisor not in _CPU_DIVISORS:
            text = "only divisor's values 1m and 1 are supported with the cpu resource"
            yield invalid(f"{path}.divisor", name, text)
    elif divisor not in _BYTE_DIVISORS and (name in _RESOURCES or name.startswith(_HUGE_PAGES)):
        kind = name.partition(".")[2]
        kind = "local ephemeral storage" if kind == "ephemeral-storage" else kind
        kind = "hugepages" if kind.startswith("hugepages-") else kind
        text = f"only divisor's values {', '.join(_BYTE_DIVISORS)} are supported with the {kind} resource"
        yield invalid(f"{path}.divisor", name, text)


def _check_key_ref(ref: KeyRef, path: str) -> Problems:
    yield from invalid_each(f"{path}.name", ref.name, names.dns_subdomain(ref.name))
    if not ref.key:
        yield required(f"{path}.key")
    else:
        yield from invalid_each(f"{path}.key", ref.key, names.config_key(ref.key))


def _check_file_ref(ref: FileKeyRef, path: str) -> Problems:
    if not ref.key:
        yield required(f"{path}.key")
    if not ref.volume_name:
        yield required(f"{path}.volumeName")
    else:
        yield from invalid_each(f"{path}.volumeName", ref.volume_name, names.dns_label(ref.volume_name))
    if not ref.path:
        yield required(f"{path}.path")
    else:
        yield from invalid_each(f"{path}.path", ref.path, names.no_backsteps(ref.path))


def check_env_from(sources: list[EnvFrom], path: str) -> Problems:
    for index, source in enumerate(sources):
        where = f"{path}[{index}]"
        if source.prefix:
            yield from invalid_each(f"{where}.prefix", source.prefix, names.env_name(source.prefix))
        refs = {"configMapRef": source.config_map_ref, "secretRef": source.secret_ref}
        given = {key: ref.name for key, ref in refs.items() if ref is not None}
        for key, name in given.items():
            if not name:
                yield required(f"{where}.{key}.name")
            else:
                yield from invalid_each(f"{where}.{key}.name", name, names.name_prefix(name))
        if not given:
            yield invalid(path, "", "must specify one of: `configMapRef` or `secretRef`")
        elif len(given) > 1:
            yield invalid(path, "", "may not have more than one field specified at a time")
