"""Host names, DNS and the ports of the host."""

import ipaddress
import re
from typing import Final

from scheduler.webhooks import names
from scheduler.webhooks.fields import (
    Problems,
    forbidden,
    invalid,
    invalid_each,
    required,
    too_long,
    unsupported,
)
from scheduler.webhooks.job.podtemplate.pod_wire import DnsConfig, HostAlias, PodSpec

_DNS_POLICIES: Final = ("ClusterFirstWithHostNet", "ClusterFirst", "Default", "None")
_MOST_SERVERS: Final = 3
_MOST_SEARCHES: Final = 32
_SEARCH_LENGTH: Final = 2048
_HOSTNAME_LENGTH: Final = 64
_OCTETS: Final = re.compile(r"[0-9]{1,9}(\.[0-9]{1,9}){3}", re.ASCII)


def check_host_network(spec: PodSpec, path: str) -> Problems:
    """On the network of its host a container's port is the host's."""
    if not spec.host_network:
        return
    for index, container in enumerate(spec.containers):
        for number, port in enumerate(container.ports):
            if port.host_port not in (0, port.container_port):
                text = "must match `containerPort` when `hostNetwork` is true"
                yield invalid(f"{path}.containers[{index}].ports[{number}].hostPort", port.host_port, text)


def check_dns_policy(policy: str, path: str) -> Problems:
    if policy and policy not in _DNS_POLICIES:
        yield unsupported(path, policy, _DNS_POLICIES)


def check_dns(config: DnsConfig | None, policy: str, path: str) -> Problems:
    if policy == "None":
        if config is None:
            yield required(path, "must provide `dnsConfig` when `dnsPolicy` is None")
        elif not config.nameservers:
            text = "must provide at least one DNS nameserver when `dnsPolicy` is None"
            yield required(f"{path}.nameservers", text)
            return
    if config is None:
        return
    servers, searches = config.nameservers, config.searches
    if len(servers) > _MOST_SERVERS:
        text = f"must not have more than {_MOST_SERVERS} nameservers"
        yield invalid(f"{path}.nameservers", servers, text)
    for index, server in enumerate(servers):
        yield from _check_ip(server, f"{path}.nameservers[{index}]")
    if len(searches) > _MOST_SEARCHES:
        text = f"must not have more than {_MOST_SEARCHES} search paths"
        yield invalid(f"{path}.searches", searches, text)
    if len(" ".join(searches).encode("utf-8", "surrogatepass")) > _SEARCH_LENGTH:
        text = f"must not have more than {_SEARCH_LENGTH} characters (including spaces) in the search list"
        yield invalid(f"{path}.searches", searches, text)
    for index, search in enumerate(searches):
        domain = search.removesuffix(".")
        yield from invalid_each(f"{path}.searches[{index}]", domain, names.dns_subdomain(domain))
    for index, option in enumerate(config.options):
        if not option.name:
            yield required(f"{path}.options[{index}]", "must not be empty")


def check_hostname_override(spec: PodSpec, path: str) -> Problems:
    name = spec.hostname_override
    if name is None:
        return
    if spec.set_hostname_as_fqdn:
        yield forbidden(path, "may not be specified when setHostnameAsFQDN is true")
    if spec.host_network:
        yield forbidden(path, "may not be specified when hostNetwork is true")
    if len(name.encode("utf-8", "surrogatepass")) > _HOSTNAME_LENGTH:
        yield too_long(path, _HOSTNAME_LENGTH)
    yield from invalid_each(path, name, names.dns_subdomain(name))


def check_host_aliases(aliases: list[HostAlias], path: str) -> Problems:
    for index, alias in enumerate(aliases):
        yield from _check_ip(alias.ip, f"{path}[{index}].ip")
        for number, name in enumerate(alias.hostnames):
            yield from invalid_each(f"{path}[{index}].hostnames[{number}]", name, names.dns_subdomain(name))


def _check_ip(value: str, path: str) -> Problems:
    try:
        address = ipaddress.ip_address(value)
    except ValueError:
        if _OCTETS.fullmatch(value) and all(int(octet) < 256 for octet in value.split(".")):
            yield invalid(path, value, "must not have leading 0s")
        else:
            yield invalid(path, value, "must be a valid IP address, (e.g. 10.9.8.7 or 2001:db8::ffff)")
        return
    if isinstance(address, ipaddress.IPv6Address) and address.ipv4_mapped is not None:
        yield invalid(path, value, "must not be an IPv4-mapped IPv6 address")
