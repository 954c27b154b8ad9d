"""The properties of JobFlows and JobTemplates that their commands use."""

import time
from collections.abc import Callable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from scheduler.cli.output import Column
from scheduler.cli.text import age

if TYPE_CHECKING:
    from scheduler.api.kinds import Kind

_GAP = 4


@dataclass(frozen=True)
class FlowKind:
    constant: str
    """The name of its constant in ``scheduler.api.kinds``."""
    command: str
    plural: str
    display_name: str
    """Its name in vcctl's messages."""
    columns: tuple[Column[Any], ...]

    @property
    def kind(self) -> "Kind":
        from scheduler.api import kinds

        kind: Kind = getattr(kinds, self.constant)
        return kind


def _state(field: str) -> Callable[[Any], str]:
    """The cell with a field of a JobFlow's ``status.state``."""

    def cell(flow: Any) -> str:
        state = flow.status.get("state")
        return str(state.get(field, "")) if isinstance(state, dict) else ""

    return cell


def _jobs(field: str) -> Column[Any]:
    """The number of jobs in the list ``<field>Jobs`` of a JobFlow's status."""

    def cell(flow: Any) -> int:
        jobs = flow.status.get(f"{field}Jobs")
        return len(jobs) if isinstance(jobs, list) else 0

    return Column(field.capitalize(), cell, wide=True)


_NAMES: tuple[Column[Any], ...] = (
    Column("Name", lambda item: item.metadata.name, gap=_GAP),
    Column("Namespace", lambda item: item.metadata.namespace, gap=_GAP),
)
_AGE: Column[Any] = Column("Age", lambda item: age(item.metadata.creation_timestamp, time.time()), gap=_GAP)

JOB_FLOW = FlowKind(
    "JOB_FLOW",
    "jobflow",
    "JobFlows",
    "jobflow",
    (
        *_NAMES,
        Column("Phase", _state("phase"), gap=_GAP, phase=True),
        _AGE,
        *(_jobs(field) for field in ("pending", "running", "completed", "failed", "terminated")),
        Column("Message", _state("message"), wide=True),
    ),
)
JOB_TEMPLATE = FlowKind("JOB_TEMPLATE", "jobtemplate", "JobTemplates", "job template", _NAMES)
