"""A Pod template as a whole: what the API server would say of Pods made from it, in its order and its words."""

from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import Problems, among, forbidden, invalid, invalid_each, required
from scheduler.webhooks.job.podtemplate.affinity import check_affinity
from scheduler.webhooks.job.podtemplate.containers import Surroundings, check_containers, check_init_containers
from scheduler.webhooks.job.podtemplate.metadata import check_labels, check_metadata, check_pod_annotations
from scheduler.webhooks.job.podtemplate.network import (
    check_dns,
    check_dns_policy,
    check_host_aliases,
    check_host_network,
    check_hostname_override,
)
from scheduler.webhooks.job.podtemplate.placement import check_gates, check_spread, check_tolerations
from scheduler.webhooks.job.podtemplate.pod_wire import PodSpec, PodTemplate
from scheduler.webhooks.job.podtemplate.resources import check_overhead, check_pod_claims, check_pod_resources
from scheduler.webhooks.job.podtemplate.security import check_host_users, check_pod_security
from scheduler.webhooks.job.podtemplate.volume_wire import Volume
from scheduler.webhooks.job.podtemplate.volumes import check_volumes
from scheduler.webhooks.job.podtemplate.wire import Named

_RESTART_POLICIES: Final = ("Always", "OnFailure", "Never")
_PREEMPTION_POLICIES: Final = ("PreemptLowerPriority", "Never")
_SYSTEMS: Final = ("linux", "windows")


def check_template(template: PodTemplate, name: str) -> Problems:
    """What is wrong with a template; ``name``: what the Pods of it are called after."""
    if not name:
        yield required("metadata.name", "name or generateName is required")
    else:
        yield from invalid_each("metadata.name", name, names.dns_subdomain(name))
    path = "template"
    yield from check_metadata(template.metadata, path)
    annotations = template.metadata.annotations
    yield from check_pod_annotations(annotations, template.spec.node_name, f"{path}.annotations")
    yield from _check_spec(template.spec, f"{path}.spec")
    if template.spec.ephemeral_containers:
        yield forbidden(f"{path}.spec.ephemeralContainers", "ephemeral containers not allowed in pod template")


def _check_spec(spec: PodSpec, path: str) -> Problems:
    volumes: dict[str, Volume] = {}
    claims = {claim.name for claim in spec.resource_claims if claim.name}
    around = Surroundings(spec, volumes, spec.restart_policy or _RESTART_POLICIES[0], claims)
    yield from check_volumes(spec.volumes, f"{path}.volumes", volumes)
    yield from check_pod_claims(spec.resource_claims, f"{path}.resourceClaims")
    yield from check_containers(around, f"{path}.containers")
    yield from check_init_containers(around, f"{path}.initContainers")
    if spec.resources is not None:
        yield from check_pod_resources(spec.resources, f"{path}.resources")
    yield from check_host_network(spec, path)
    yield from among(f"{path}.restartPolicy", spec.restart_policy or None, _RESTART_POLICIES)
    yield from check_dns_policy(spec.dns_policy, f"{path}.dnsPolicy")
    yield from check_labels(spec.node_selector, f"{path}.nodeSelector")
    yield from check_pod_security(spec, f"{path}.securityContext")
    yield from check_affinity(spec.affinity, f"{path}.affinity")
    yield from check_dns(spec.dns_config, spec.dns_policy, f"{path}.dnsConfig")
    yield from check_gates(spec.readiness_gates, spec.scheduling_gates, path)
    yield from check_spread(spec.topology_spread_constraints, f"{path}.topologySpreadConstraints")
    yield from check_host_users(spec, path)
    yield from check_hostname_override(spec, f"{path}.hostnameOverride")
    yield from _check_names(spec, path)
    yield from check_tolerations(spec.tolerations, f"{path}.tolerations")
    yield from check_host_aliases(spec.host_aliases, f"{path}.hostAliases")
    yield from _check_classes(spec, path)
    yield from check_overhead(spec.overhead, f"{path}.overhead")
    yield from _check_system(spec.os, f"{path}.os")


def _check_names(spec: PodSpec, path: str) -> Problems:
    for key, name in (("serviceAccountName", spec.service_account_name), ("nodeName", spec.node_name)):
        if name:
            yield from invalid_each(f"{path}.{key}", name, names.dns_subdomain(name))
    deadline = spec.active_deadline_seconds
    if deadline is not None:
        for text in names.between(deadline, 1, names.LARGEST_INT32):
            yield invalid(f"{path}.activeDeadlineSeconds", deadline, text)
    for key, name in (("hostname", spec.hostname), ("subdomain", spec.subdomain)):
        if name:
            yield from invalid_each(f"{path}.{key}", name, names.dns_label(name))


def _check_classes(spec: PodSpec, path: str) -> Problems:
    name = spec.priority_class_name
    if name:
        yield from invalid_each(f"{path}.priorityClassName", name, names.dns_subdomain(name))
    if spec.runtime_class_name is not None:
        wrong = names.dns_subdomain(spec.runtime_class_name)
        yield from invalid_each(f"{path}.runtimeClassName", spec.runtime_class_name, wrong)
    if spec.preemption_policy == "":
        yield required(f"{path}.preemptionPolicy")
    else:
        yield from among(f"{path}.preemptionPolicy", spec.preemption_policy, _PREEMPTION_POLICIES)


def _check_system(system: Named | None, path: str) -> Problems:
    if system is None:
        return
    if not system.name:
        yield required(f"{path}.name")
    else:
        yield from among(path, system.name, _SYSTEMS)
