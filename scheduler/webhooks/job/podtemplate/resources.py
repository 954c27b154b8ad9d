"""Requests, limits and claims of devices."""

import re
from collections import Counter
from collections.abc import Callable, Collection, Mapping
from itertools import repeat
from typing import Final

from scheduler.api.amount import Amount
from scheduler.api.names import CPU, MEMORY
from scheduler.api.objects import ResourceList
from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    duplicate,
    forbidden,
    invalid,
    invalid_each,
    not_found,
    required,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.pod_wire import PodResourceClaim
from scheduler.webhooks.job.podtemplate.wire import ResourceClaim, Resources
from scheduler.webhooks.quantities import (
    OBJECTS,
    QUANTITY_SYNTAX,
    UNIT,
    check_amount,
    is_extended,
    is_native,
    read_quantity,
)

_HUGE_PAGES: Final = "hugepages-"
_EPHEMERAL: Final = "ephemeral-storage"
_COMPUTE: Final = frozenset((CPU, MEMORY, _EPHEMERAL))
_STANDARD: Final = (
    _COMPUTE
    | {f"{kind}.{name}" for kind in ("requests", "limits") for name in _COMPUTE}
    | OBJECTS
    | {"storage", "requests.storage"}
)
_POD_LEVEL: Final = (CPU, _HUGE_PAGES, MEMORY)
NameCheck = Callable[[str, str], Problems]


def _may_be_overcommitted(name: str) -> bool:
    return is_native(name) and not name.startswith(_HUGE_PAGES)


def _check_resource_name(name: str, path: str) -> Problems:
    faults = names.qualified_name(name)
    yield from invalid_each(path, name, faults)
    if faults or "/" in name or name in _STANDARD or re.match("(requests[.])?hugepages-", name):
        return
    yield invalid(path, name, "must be a standard resource type or fully qualified")


def _check_container_resource(name: str, path: str) -> Problems:
    yield from _check_resource_name(name, path)
    if "/" not in name:
        if name not in _COMPUTE and not name.startswith(_HUGE_PAGES):
            yield invalid(path, name, "must be a standard resource for containers")
    elif not is_native(name) and not is_extended(name):
        yield invalid(path, name, "doesn't follow extended resource name standard")


def _check_pod_resource(name: str, path: str) -> Problems:
    faults = list(_check_resource_name(name, path))
    yield from faults
    if not faults and not name.startswith(_HUGE_PAGES) and name not in _POD_LEVEL:
        yield unsupported(path, name, _POD_LEVEL)


def _read(resources: ResourceList) -> dict[str, Amount | None]:
    return {name: read_quantity(value) for name, value in resources.items()}


def _check_huge_pages(name: str, amount: Amount, path: str) -> Problems:
    if not name.startswith(_HUGE_PAGES):
        return
    page = read_quantity(name.removeprefix(_HUGE_PAGES))
    whole = -(-amount.nano // UNIT)
    if page is None or page.nano <= 0 or page.nano % UNIT or whole % (page.nano // UNIT):
        yield invalid(path, str(amount), f"{amount} is not positive integer multiple of {name}")


def _check_list(given: ResourceList, amounts: Mapping[str, Amount | None], check: NameCheck, path: str) -> Problems:
    for name, amount in amounts.items():
        where = f"{path}[{name}]"
        yield from check(name, where)
        if amount is None:
            yield invalid(where, str(given[name]), QUANTITY_SYNTAX)
            continue
        yield from check_amount(name, amount, where)
        yield from _check_huge_pages(name, amount, where)


def _check_against_limits(
    requests: Mapping[str, Amount | None], limits: Mapping[str, Amount | None], path: str
) -> Problems:
    for name, amount in requests.items():
        shared = _may_be_overcommitted(name)
        if name not in limits:
            if not shared:
                yield required(f"{path}.limits", "Limit must be set for non overcommitable resources")
            continue
        limit = limits[name]
        if amount is None or limit is None:
            continue
        if amount.nano != limit.nano and not shared:
            yield invalid(f"{path}.requests", str(amount), f"must be equal to {name} limit of {limit}")
        elif amount.nano > limit.nano:
            yield invalid(f"{path}.requests", str(amount), f"must be less than or equal to {name} limit of {limit}")


def _check_requirements(resources: Resources, check: NameCheck, claims: Collection[str], path: str) -> Problems:
    limits, requests = _read(resources.limits), _read(resources.requests)
    yield from _check_list(resources.limits, limits, check, f"{path}.limits")
    yield from _check_list(resources.requests, requests, check, f"{path}.requests")
    yield from _check_against_limits(requests, limits, path)
    asked = {*limits, *requests}
    if any(name.startswith(_HUGE_PAGES) for name in asked) and not asked & {CPU, MEMORY}:
        yield forbidden(path, "HugePages require cpu or memory")
    yield from _check_claims(resources.claims, claims, f"{path}.claims")


def check_resources(resources: Resources, claims: Collection[str], path: str) -> Problems:
    """Of a container. ``claims``: names of the Pod's spec.resourceClaims."""
    yield from _check_requirements(resources, _check_container_resource, claims, path)


def check_pod_resources(resources: Resources, path: str) -> Problems:
    """Of a Pod as a whole."""
    if resources.claims:
        yield forbidden(f"{path}.claims", "claims may not be set for Resources at pod-level")
    yield from _check_requirements(resources, _check_pod_resource, (), path)


def check_overhead(overhead: ResourceList, path: str) -> Problems:
    yield from check_resources(Resources(limits=overhead), (), path)


def _check_claims(claims: list[ResourceClaim], known: Collection[str], path: str) -> Problems:
    seen: set[str] = set()
    parts: Counter[str] = Counter()
    """How many requests of a claim are named."""
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        if not claim.name:
            yield required(where)
            continue
        key = f"{claim.name}/{claim.request}" if claim.request else claim.name
        if claim.name in seen:
            yield duplicate(where, claim.name)
        else:
            if claim.request:
                yield from invalid_each(f"{where}.request", claim.request, names.dns_label(claim.request))
            if key in seen:
                yield duplicate(where, key)
            elif not claim.request:
                yield from repeat(duplicate(where, claim.name), parts[claim.name])
            else:
                parts[claim.name] += 1
            seen.add(key)
        if claim.name not in known:
            listed = f": {', '.join(sorted(known))}" if known else " which is empty"
            yield not_found(where, claim.name, f"must be one of the names in pod.spec.resourceClaims{listed}")


def check_pod_claims(claims: list[PodResourceClaim], path: str) -> Problems:
    seen: set[str] = set()
    for index, claim in enumerate(claims):
        where = f"{path}[{index}]"
        if not claim.name:
            yield required(f"{where}.name")
        elif claim.name in seen:
            yield duplicate(f"{where}.name", claim.name)
        else:
            yield from invalid_each(f"{where}.name", claim.name, names.dns_label(claim.name))
            seen.add(claim.name)
        source, template = claim.resource_claim_name, claim.resource_claim_template_name
        shown = {"Name": claim.name, "ResourceClaimName": source, "ResourceClaimTemplateName": template}
        if source is not None and template is not None:
            text = "at most one of `resourceClaimName` or `resourceClaimTemplateName` may be specified"
            yield invalid(where, shown, text)
        elif source is None and template is None:
            yield invalid(where, shown, "must specify one of: `resourceClaimName`, `resourceClaimTemplateName`")
        for key, name in (("resourceClaimName", source), ("resourceClaimTemplateName", template)):
            if name is not None:
                yield from invalid_each(f"{where}.{key}", name, names.dns_subdomain(name))
