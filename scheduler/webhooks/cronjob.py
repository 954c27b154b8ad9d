"""Admission of CronJobs: schedule, time zone and name (Volcano's /cronjobs/validate), and whether their jobs can
start."""

import re
from collections.abc import Iterator
from typing import Final

from scheduler.api.batch import CronJob, CronJobSpec
from scheduler.api.cron import CronError, load_zone, parse_cron
from scheduler.webhooks.contract import AdmissionRequest, ClusterView, WebhookSettings
from scheduler.webhooks.decoding import validator
from scheduler.webhooks.fields import qualified_name, quote
from scheduler.webhooks.job import template_problem

_MAX_NAME_BYTES: Final = 52
"""The name of a job has 11 bytes more, and at most 63."""
_ZONE_SEGMENT: Final = re.compile(r"[A-Za-z.\-_0-9+]{1,14}")


@validator(CronJob, of_spec=True)
def validate(cron_job: CronJob, request: AdmissionRequest, cluster: ClusterView, settings: WebhookSettings) -> str:
    """All problems of the CronJob in one text, or ""."""
    name = cron_job.metadata.name or request.name
    of_job = template_problem(cron_job.spec.job_template.spec, settings)
    problems = (
        "".join(_spec_problems(cron_job.spec)).strip(),
        _name_problem(name),
        f"spec.jobTemplate: {of_job}" if of_job else "",
    )
    return "; ".join(filter(None, problems))


def _spec_problems(spec: CronJobSpec) -> Iterator[str]:
    if not spec.schedule:
        yield " schedule is required, but got empty"
    elif "TZ" in spec.schedule:
        yield " schedule should not contain TZ or CRON_TZ, TZ should only be set in the timeZone field"
    else:
        try:
            parse_cron(spec.schedule)
        except CronError:
            yield "schedule is not a valid cron expression"
    if spec.time_zone is not None:
        yield from _zone_problems(spec.time_zone)


def _zone_problems(zone: str) -> Iterator[str]:
    if not zone:
        yield " timeZone must be nil or non-empty string, got empty string"
        return
    for part in zone.split("/"):
        if part in (".", "..") or part.startswith("-") or _ZONE_SEGMENT.fullmatch(part) is None:
            yield " unknown timeZone"
    if zone.lower() == "local":
        yield " timeZone can't be Local, and must be defined in https://www.iana.org/time-zones"
        return
    try:
        load_zone(zone)
    except CronError:
        yield " invalid timeZone"


def _name_problem(name: str) -> str:
    if len(name.encode("utf-8", "surrogatepass")) > _MAX_NAME_BYTES:
        return "cronJob name must be no more than 52 characters to accommodate job name suffix (max 63 total)"
    problems = qualified_name(name) if name else []
    return f"invalid cronJob name {quote(name)}: {'; '.join(problems)}" if problems else ""
