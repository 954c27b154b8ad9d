"""The scheduler's configuration file, in the format of ``volcano-scheduler.conf``.

As in Volcano, unknown fields and unknown plugins are ignored; each causes a warning. An unknown action or a value of a
wrong type is an error with its line, and a running scheduler keeps the last valid configuration.
"""

from collections.abc import Collection, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final

from scheduler.api.messages import type_of, value_of
from scheduler.framework import registry
from scheduler.framework.configuration import Configuration, PluginOption, parse_usage_source
from scheduler.framework.documents import DocumentError, read_yaml
from scheduler.framework.extension import ENABLE_HIERARCHY, FLAGS

DEFAULT_CONFIGURATION: Final = """\
actions: "enqueue, allocate, backfill"
tiers:
- plugins:
  - name: priority
  - name: gang
    enablePreemptable: false
  - name: conformance
- plugins:
  - name: overcommit
  - name: drf
    enablePreemptable: false
  - name: predicates
  - name: ascend
  - name: proportion
  - name: nodeorder
  - name: binpack
"""
"""The configuration without a file: the default of Volcano's chart, and ``ascend``."""


MAX_BYTES: Final = 1_000_000
"""The largest configuration file, in bytes."""
_ROOT_FIELDS: Final = ("actions", "tiers", "configurations", "metrics")
_TIER_FIELDS: Final = ("plugins",)
_PLUGIN_FIELDS: Final = ("name", "arguments", "flags such as enableJobOrder")
_ENTRY_FIELDS: Final = ("name", "arguments")


class ConfigurationError(ValueError):
    """The file is invalid. The message says where and why."""


def read_configuration(path: Path) -> str:
    """Returns the text of a configuration file. Raises ConfigurationError."""
    try:
        data = path.read_bytes()
        if len(data) > MAX_BYTES:
            raise ConfigurationError(f"{path}: larger than {MAX_BYTES} bytes")
        return data.decode()
    except OSError as error:
        raise ConfigurationError(f"{path}: {error.strerror or error}") from None
    except UnicodeDecodeError as error:
        raise ConfigurationError(f"{path}: not UTF-8 (byte {error.start})") from None


def parse_configuration(text: str, source: str = "scheduler configuration") -> Configuration:
    """Parses a configuration. Raises ConfigurationError, with ``source`` and the line or field, if it is invalid."""
    try:
        document = read_yaml(text)
    except DocumentError as error:
        raise ConfigurationError(f"{source}{f':{error.line}' if error.line else ''}: {error}") from None
    root = _mapping(document, source, "the file")
    warnings: list[str] = _unknown_fields(root, _ROOT_FIELDS, source, "")
    names = _actions(root, source)
    tiers = tuple(
        _tier(tier, f"tiers[{i}]", source, warnings) for i, tier in enumerate(_list(root.get("tiers"), source, "tiers"))
    )
    warnings += _about_plugins(tiers, source)
    for tier in tiers:
        by_name = {option.name: option for option in tier}
        if "proportion" in by_name and "drf" in by_name and by_name["drf"].enabled(ENABLE_HIERARCHY):
            raise ConfigurationError(f"{source}: proportion and drf with hierarchy enabled conflicts")
        for option in tier:
            refusal = registry.refusal(option.name, option.arguments)
            if refusal:
                raise ConfigurationError(f"{source}: plugin {option.name}: {refusal}")
    arguments: dict[str, dict[str, Any]] = {}
    for i, entry in enumerate(_list(root.get("configurations"), source, "configurations")):
        fields = _mapping(entry, source, f"configurations[{i}]")
        given = _mapping(fields.get("arguments") or {}, source, f"configurations[{i}].arguments")
        warnings += _about_entry(fields, f"configurations[{i}]", source, arguments)
        arguments.setdefault(str(fields.get("name", "")), given)  # the first counts, as Volcano's
    metrics, problems = parse_usage_source(_mapping(root.get("metrics") or {}, source, "metrics"), f"{source}: metrics")
    warnings += problems
    return Configuration(names, tiers, arguments, metrics, warnings=tuple(warnings))


def _actions(root: Mapping[Any, Any], source: str) -> tuple[str, ...]:
    if "actions" not in root:
        raise ConfigurationError(f"{source}: actions: the field is missing{_instead(root, _ROOT_FIELDS)}")
    value = root["actions"]
    if not isinstance(value, str):
        raise ConfigurationError(f"{source}: actions: expected a comma-separated string, got {type_of(value)}")
    names = tuple(name.strip() for name in value.split(","))
    for name in names:
        if registry.action(name) is None:
            raise ConfigurationError(
                f"{source}: actions: failed to find Action {name!r}; known: {', '.join(registry.action_names())}"
            )
    return names


def _tier(value: object, where: str, source: str, warnings: list[str]) -> tuple[PluginOption, ...]:
    fields = _mapping(value, source, where)
    warnings += _unknown_fields(fields, _TIER_FIELDS, source, where)
    plugins = _list(fields.get("plugins"), source, f"{where}.plugins")
    return tuple(_plugin(plugin, f"{where}.plugins[{i}]", source, warnings) for i, plugin in enumerate(plugins))


def _plugin(value: object, where: str, source: str, warnings: list[str]) -> PluginOption:
    fields = _mapping(value, source, where)
    name = fields.get("name")
    if not isinstance(name, str) or not name:
        instead = _instead(fields, ("name", "arguments", *FLAGS))
        raise ConfigurationError(f"{source}: {where}.name: expected a plugin's name, got {value_of(name)}{instead}")
    if registry.plugin(name) is None:
        hint = "is its module in --plugins-dir, or its package installed?"
        warnings.append(f"{source}: {where}: unknown plugin {name!r} is ignored ({hint})")
    flags, others = ({f: v for f, v in fields.items() if str(f).startswith("enable") is its} for its in (True, False))
    warnings += _unknown_fields(flags, sorted(FLAGS), source, where)
    warnings += _unknown_fields(others, _PLUGIN_FIELDS, source, where)
    given = {}
    for key in sorted(key for key in FLAGS if fields.get(key) is not None):
        if not isinstance(fields[key], bool):
            raise ConfigurationError(f"{source}: {where}.{key}: expected true or false, got {value_of(fields[key])}")
        given[key] = fields[key]
    arguments = _mapping(fields.get("arguments") or {}, source, f"{where}.arguments")
    return PluginOption(registry.resolve_plugin(name), given, {str(key): value for key, value in arguments.items()})


def _unknown_fields(fields: Mapping[Any, Any], known: Collection[str], source: str, where: str) -> list[str]:
    """Returns a warning for each field that is not known."""
    names = ", ".join(known)
    dot = "." if where else ""
    return [
        f"{source}: {where}{dot}{str(field)[:66]}: unknown field is ignored; known: {names}"
        for field in fields
        if field not in known
    ]


def _instead(fields: Mapping[Any, Any], known: Collection[str]) -> str:
    """Returns the end of a message about a missing field: the unknown fields that are there, or ""."""
    unknown = ", ".join(str(field)[:66] for field in fields if field not in known)
    return f"; unknown fields: {unknown[:200]}" if unknown else ""


def _about_plugins(tiers: Sequence[Sequence[PluginOption]], source: str) -> Iterator[str]:
    """Yields warnings about the plugins of all tiers together."""
    options = [option.name for tier in tiers for option in tier]
    plugins = dict.fromkeys(options)
    if not any(registry.plugin(name) for name in plugins):
        yield f"{source}: no plugin is enabled: no gang is held together and no quota applies"
    for name in plugins:
        if options.count(name) > 1:
            yield f"{source}: plugin {name} is configured {options.count(name)} times; each of them is asked"
        for other, remark in registry.remarks(name, plugins):
            yield f"{source}: plugin {name} beside {other}: {remark}"


def _about_entry(fields: Mapping[str, Any], where: str, source: str, earlier: Collection[str]) -> Iterator[str]:
    """Yields warnings about an entry of ``configurations``. ``earlier``: the names of the entries before it."""
    yield from _unknown_fields(fields, _ENTRY_FIELDS, source, where)
    name = str(fields.get("name", ""))
    known = registry.entry_names()
    if name not in known:
        names = ", ".join(known)
        yield f"{source}: {where}.name: there is no action {name[:66]!r}; the entry is ignored; known: {names}"
    elif name in earlier:
        yield f"{source}: {where}.name: {name} has an entry already; this one is ignored"


def _mapping(value: object, source: str, where: str) -> dict[str, Any]:
    if not isinstance(value, dict):
        raise ConfigurationError(f"{source}: {where}: expected a mapping, got {type_of(value)}")
    return value


def _list(value: object, source: str, where: str) -> list[Any]:
    if value is None:
        return []
    if not isinstance(value, list):
        raise ConfigurationError(f"{source}: {where}: expected a list, got {type_of(value)}")
    return value
