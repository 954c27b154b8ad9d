"""What a validator finds: the text of a refusal, and the Pod templates that only the API server can validate.

A validator is a pure function and Kubernetes' validation of Pods is not part of it, so a verdict says where the
problems of each template belong. Code that can ask the API server fills them in; elsewhere templates are not
validated. A verdict is plain data, which msgspec carries from one process to another.
"""

from collections.abc import Sequence

import msgspec

from scheduler.webhooks.fields import LONGEST_ANSWER, shortened


class TemplateCheck(msgspec.Struct, frozen=True, array_like=True):
    """The place in a refusal for what is wrong with one Pod template."""

    template: int
    """Index in ``Verdict.templates``."""
    task: int
    """Index of the task that has the template."""
    problems: str = ""
    """What is known to be wrong already; comes first."""


class Verdict(msgspec.Struct, frozen=True):
    """An empty one allows the write."""

    parts: list[str | TemplateCheck] = []
    templates: list[bytes] = []
    """The distinct Pod templates, as JSON."""

    def text(self, problems: Sequence[str] = ()) -> str:
        """The refusal, or "". ``problems``: of each template, in the words of the API server; none are known without
        it."""
        text, length = [], 0
        for part in self.parts:
            text.append(part if isinstance(part, str) else _problems(part, problems))
            length += len(text[-1])
            if length > LONGEST_ANSWER:
                break
        return shortened("".join(text).strip())

    def field_of(self, template: int) -> str:
        """The first task that has a template."""
        checks = (part for part in self.parts if isinstance(part, TemplateCheck))
        return next(_field(check) for check in checks if check.template == template)


def _field(check: TemplateCheck) -> str:
    """In the words of Volcano."""
    return f"spec.task[{check.task}]"


def _problems(check: TemplateCheck, problems: Sequence[str]) -> str:
    text = check.problems + (problems[check.template] if problems else "")
    return f"{_field(check)}.{text}" if text else ""
