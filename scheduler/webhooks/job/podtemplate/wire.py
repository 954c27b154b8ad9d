"""The structs that several parts of a Pod template use.

Together the files of wire structs hold the fields that are checked, with Kubernetes' defaults where a check needs them.

None is what Kubernetes' own structs call a nil pointer. A field of a wrong type is an error that names its path.
"""

from typing import Annotated, Any

from msgspec import Meta as Bounds
from msgspec import field

from scheduler.api.objects import ResourceList, Wire

Int32 = Annotated[int, Bounds(ge=-(2**31), le=2**31 - 1)]
Int64 = Annotated[int, Bounds(ge=-(2**63), le=2**63 - 1)]
Loose = dict[str, Any]
"""A kind of volume of which only the presence of some fields is checked."""


class Named(Wire):
    name: str = ""


class Requirement(Wire):
    key: str = ""
    operator: str = ""
    values: list[str] = field(default_factory=list)


class LabelSelector(Wire):
    match_labels: dict[str, str] = field(default_factory=dict)
    match_expressions: list[Requirement] = field(default_factory=list)


class Meta(Wire):
    labels: dict[str, str] = field(default_factory=dict)
    annotations: dict[str, str] = field(default_factory=dict)


class FieldRef(Wire):
    api_version: str = "v1"
    field_path: str = ""


class ResourceFieldRef(Wire):
    container_name: str = ""
    resource: str = ""
    divisor: str | int | float = "0"


class ResourceClaim(Wire):
    name: str = ""
    request: str = ""


class Resources(Wire):
    requests: ResourceList = field(default_factory=dict)
    limits: ResourceList = field(default_factory=dict)
    claims: list[ResourceClaim] = field(default_factory=list)


class Profile(Wire):
    """Of seccomp or AppArmor."""

    type: str = ""
    localhost_profile: str | None = None
