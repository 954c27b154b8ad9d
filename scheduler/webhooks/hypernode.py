"""Admission of HyperNodes (Volcano's /hypernodes/validate): members exist, and their patterns are valid.

The schema of the CustomResourceDefinition validates the other fields.
"""

from collections.abc import Iterator
from typing import Final

import msgspec

from scheduler.api.objects import KubeObject, Wire
from scheduler.framework.patterns import pattern_fault
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, WebhookSettings
from scheduler.webhooks.decoding import validator
from scheduler.webhooks.fields import aggregate, invalid

_MEMBERS: Final = "[].spec.members"
"""The path of the field in Volcano's refusals."""


class _RegexMatch(Wire):
    pattern: str = ""


class _Selector(Wire):
    regex_match: _RegexMatch | None = None


class _Member(Wire):
    selector: _Selector = msgspec.field(default_factory=_Selector)


class _Spec(Wire):
    members: list[_Member] = msgspec.field(default_factory=list)


class _HyperNode(KubeObject):
    spec: _Spec = msgspec.field(default_factory=_Spec)


@validator(_HyperNode, of_spec=True)
def validate(node: _HyperNode, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    """All problems of the HyperNode in one text, or ""."""
    return aggregate(_problems(node.spec))


def _problems(spec: _Spec) -> Iterator[str]:
    if not spec.members:
        yield invalid(_MEMBERS, None, "member must have at least one member")
    for member in spec.members:
        pattern = member.selector.regex_match.pattern if member.selector.regex_match else ""
        fault = pattern_fault(pattern)
        if fault:
            text = f"member regexMatch pattern is invalid: {fault}"
            yield invalid(f"{_MEMBERS}.selector.regexMatch.pattern", pattern[:1024], text)
