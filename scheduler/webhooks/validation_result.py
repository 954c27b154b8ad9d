"""The result of a validator: the text of a refusal, with a place for the problems of each Pod template.

Validators are pure functions and do not contain Kubernetes' validation of Pods. Code that has a client lets the API
server validate the templates and passes the problems to ``text``; elsewhere templates are not validated. A result is
plain data, which msgspec encodes to pass it from one process to another.
"""

from collections.abc import Sequence

import msgspec

from scheduler.webhooks.fields import MAX_MESSAGE_LENGTH, truncated


class TemplateCheck(msgspec.Struct, frozen=True, array_like=True):
    """The place in a refusal for the problems of a Pod template."""

    template: int
    """Index in ``ValidationResult.templates``."""
    task: int
    """Index of the task or role with the template."""
    problems: str = ""
    """Problems that the validator found itself; they come first."""
    field: str = ""
    """The field of the object that has the template, if that is no task."""


class ValidationResult(msgspec.Struct, frozen=True):
    """The parts of a refusal in order. A result whose parts are all empty allows the write."""

    parts: list[str | TemplateCheck] = []
    templates: list[bytes] = []
    """The distinct Pod templates, as JSON."""
    job_templates: list[tuple[int, str]] = []
    """The new steps of a JobFlow, each with its index and its JobTemplate. Code that has a client warns of JobTemplates
    that do not exist."""

    def text(self, problems: Sequence[str] = ()) -> str:
        """The refusal, or "". ``problems``: for each template the text of the API server; empty if it was not asked."""
        text, length = [], 0
        for part in self.parts:
            text.append(part if isinstance(part, str) else _problems(part, problems))
            length += len(text[-1])
            if length > MAX_MESSAGE_LENGTH:
                break
        return truncated("".join(text).strip())

    def field_of(self, template: int) -> str:
        """The field of the first task or role with a template."""
        checks = (part for part in self.parts if isinstance(part, TemplateCheck))
        return next(_field(check) for check in checks if check.template == template)


def _field(check: TemplateCheck) -> str:
    """The name of the field; for tasks, the name in Volcano's refusals."""
    return check.field or f"spec.task[{check.task}]"


def _problems(check: TemplateCheck, problems: Sequence[str]) -> str:
    text = check.problems + (problems[check.template] if problems else "")
    return f"{_field(check)}.{text}" if text else ""
