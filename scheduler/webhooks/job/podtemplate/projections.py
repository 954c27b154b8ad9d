"""Volumes whose files come from ConfigMaps, Secrets, the Pod itself and tokens."""

from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, forbidden, invalid, invalid_each, required
from scheduler.webhooks.job.podtemplate.env import VOLUME_FIELDS, check_field_ref, check_resource_ref
from scheduler.webhooks.job.podtemplate.volume_wire import (
    ConfigMapVolume,
    DownwardFile,
    DownwardVolume,
    KeyToPath,
    ProjectedVolume,
    SecretVolume,
    TokenProjection,
)

_SHORTEST_TOKEN: Final = 600
_LONGEST_TOKEN: Final = 2**32
"""Seconds a token is valid."""


def check_secret(source: SecretVolume, path: str) -> Problems:
    if not source.secret_name:
        yield required(f"{path}.secretName")
    yield from _check_mode(source.default_mode, f"{path}.defaultMode")
    yield from _check_items(source.items, path)


def check_config_map(source: ConfigMapVolume, path: str) -> Problems:
    if not source.name:
        yield required(f"{path}.name")
    yield from _check_mode(source.default_mode, f"{path}.defaultMode")
    yield from _check_items(source.items, path)


def check_downward(source: DownwardVolume, path: str) -> Problems:
    yield from _check_mode(source.default_mode, f"{path}.defaultMode")
    for file in source.items:
        yield from _check_downward_file(file, path)


def check_projected(volume: ProjectedVolume, path: str) -> Problems:
    yield from _check_mode(volume.default_mode, f"{path}.defaultMode")
    taken: set[str] = set()
    for index, source in enumerate(volume.sources):
        where = f"{path}.sources[{index}]"
        for key, listed in (("secret", source.secret), ("configMap", source.config_map)):
            if listed is None:
                continue
            if not listed.name:
                yield required(f"{where}.{key}.name")
            for number, item in enumerate(listed.items):
                yield from _check_item(item, f"{where}.{key}.items[{number}]")
                yield from _take(item.path, listed.name, taken, path)
        if source.downward_api is not None:
            for file in source.downward_api.items:
                yield from _check_downward_file(file, f"{where}.downwardAPI")
                yield from _take(file.path, file.path, taken, path)
        if source.service_account_token is not None:
            yield from _check_token(source.service_account_token, path, f"{where}.serviceAccountToken")
        if sum(getattr(source, each) is not None for each in source.__struct_fields__) > 1:
            yield forbidden(where, "may not specify more than 1 volume type per source")


def _take(file: str, shown: str, taken: set[str], path: str) -> Problems:
    if file and file in taken:
        yield invalid(path, shown, "conflicting duplicate paths")
    taken.add(file)


def _check_token(token: TokenProjection, path: str, where: str) -> Problems:
    seconds = token.expiration_seconds
    if seconds < _SHORTEST_TOKEN:
        yield invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration less than 10 minutes")
    if seconds > _LONGEST_TOKEN:
        yield invalid(f"{where}.expirationSeconds", seconds, "may not specify a duration larger than 2^32 seconds")
    if not token.path:
        yield required(f"{path}.path")
    else:
        yield from invalid_each(f"{path}.path", token.path, names.plain_path(token.path))


def _check_items(items: list[KeyToPath], path: str) -> Problems:
    for index, item in enumerate(items):
        yield from _check_item(item, f"{path}.items[{index}]")


def _check_item(item: KeyToPath, path: str) -> Problems:
    for key, value in (("key", item.key), ("path", item.path)):
        if not value:
            yield required(f"{path}.{key}")
    yield from invalid_each(f"{path}.path", item.path, names.plain_path(item.path))
    yield from _check_mode(item.mode, f"{path}.mode")


def _check_mode(mode: int | None, path: str) -> Problems:
    if mode is not None and not 0 <= mode <= 0o777:
        yield invalid(path, mode, "must be a number between 0 and 0777 (octal), both inclusive")


def _check_downward_file(file: DownwardFile, path: str) -> Problems:
    if not file.path:
        yield required(f"{path}.path")
    yield from invalid_each(f"{path}.path", file.path, names.plain_path(file.path))
    if file.field_ref is not None:
        yield from check_field_ref(file.field_ref, VOLUME_FIELDS, f"{path}.fieldRef")
        if file.resource_field_ref is not None:
            yield invalid(path, "resource", "fieldRef and resourceFieldRef can not be specified simultaneously")
    elif file.resource_field_ref is not None:
        yield from check_resource_ref(file.resource_field_ref, f"{path}.resourceFieldRef", container_needed=True)
    else:
        yield required(path, "one of fieldRef and resourceFieldRef is required")
    yield from _check_mode(file.mode, f"{path}.mode")
