"""The chips that a Pod holds, determined from annotations that may be forged.

Users who may edit a Pod can write any list of chips onto it. The scheduler's own record of the binding therefore takes
precedence over the current annotations. Annotations are trusted only where no record can exist: on Pods that another
scheduler bound, or that this scheduler bound before it signed its bindings. A Pod never holds more chips than it
requests. If annotations and record disagree about a chip, it is assigned to no Pod while this Pod exists.
"""

from typing import NamedTuple

from scheduler.api.names import ASCEND_REAL, EVENT_DEVICES_DISAGREE
from scheduler.api.reasons import Malformed
from scheduler.api.task import MAX_EARLIER, Task
from scheduler.plugins.ascend.masks import ALL, NONE, ChipListError, format_chips, ids_of, parse_chips, parse_mounted
from scheduler.plugins.ascend.npu_requests import ChipRequests, ChipResource
from scheduler.plugins.ascend.shares import share_of


class ChipHolding(NamedTuple):
    """The chips of one Pod on a node, as far as they are known."""

    held: int = NONE
    """Mask of the chips that the Pod holds; never more than it requests."""
    doubtful: int = NONE
    """Mask of other chips that it may use too, or instead."""
    unnamed: int = 0
    """Number of requested whole chips whose ids are unknown."""
    unknown: bool = False
    """The annotations are not trusted, and there is no record."""


def holding(
    resource: ChipResource, task: Task, requests: ChipRequests, since: float, problems: list[Malformed]
) -> ChipHolding:
    """Returns the chips of a Pod on a node, and adds what is wrong to ``problems``. ``since``: Unix time from which on
    bindings are recorded."""
    shares = share_of(task) is not None  # of one chip, whatever it requests
    annotations = _Annotations(resource, task, 1 if shares else requests.maximum(task.cls), problems)
    whole = min(requests.whole(task.cls), 1) if shares else requests.whole(task.cls)
    recorded, earlier = annotations.recorded(), annotations.earlier()
    if whole and len(task.earlier) == MAX_EARLIER:
        annotations.report_unknown(
            f"its annotations of devices were changed on node {task.node} {MAX_EARLIER} times or more"
        )
        return ChipHolding(recorded, ALL & ~recorded, whole - recorded.bit_count(), True)
    if recorded:
        return ChipHolding(
            recorded, (annotations.differing_from(recorded) | annotations.changed(earlier, recorded)) & ~recorded
        )
    mounted, assigned = annotations.mounted(), annotations.assigned()
    if whole and task.unproven(since):
        annotations.report_unknown(
            f"its binding to node {task.node} has no record that the scheduler signed "
            f"(annotated: {annotations.listed(mounted | assigned)})"
        )
        return ChipHolding(NONE, mounted | assigned | earlier, whole, True)
    held = mounted or assigned
    return ChipHolding(held, (assigned | annotations.changed(earlier, held)) & ~held, max(whole - held.bit_count(), 0))


def malformed_annotation(task: Task, key: str, problem: str) -> Malformed:
    """Reports an annotation of a Pod that is ignored."""
    return Malformed("Pod", task.namespace, task.name, f"metadata.annotations[{key}]", problem)


def disagreement(task: Task, key: str, what: str, consequence: str) -> Malformed:
    """Reports an annotation of a Pod that disagrees with its request, its binding, its other annotations, or other
    Pods."""
    field = f"metadata.annotations[{key}]"
    return Malformed("Pod", task.namespace, task.name, field, what, consequence, EVENT_DEVICES_DISAGREE, uid=task.uid)


class _Annotations:
    """The chip lists in the annotations of a Pod. Lists with more chips than the Pod requests are ignored."""

    def __init__(self, resource: ChipResource, task: Task, maximum: int, problems: list[Malformed]) -> None:
        self._resource = resource
        self._task = task
        self._maximum = maximum
        self._problems = problems

    def recorded(self) -> int:
        """Returns the chips in the binding record; 0 if the device plugin chooses them, or if there is no record."""
        record = self._task.record
        text = "" if record is None else record.chips.get(self._resource.name, "")
        try:
            return parse_chips(text, self._resource.prefix)
        except ChipListError:  # the record is of a version with other chip names
            return NONE

    def mounted(self) -> int:
        """Returns the chips that are mounted according to the device plugin."""
        text = self._task.annotations.get(ASCEND_REAL, "")
        # All families share the key; Pods of other families list other names.
        if not text.startswith(self._resource.prefix) and self._resource.name not in self._task.annotations:
            return NONE
        return self._read(ASCEND_REAL, text)

    def assigned(self) -> int:
        return self._read(self._resource.name, self._task.annotations.get(self._resource.name, ""))

    def earlier(self) -> int:
        """Returns the chips in earlier values of the annotations, if a device plugin could have used these values."""
        mask = NONE
        for key, text in self._task.earlier:
            if key in (ASCEND_REAL, self._resource.name):
                try:
                    found = parse_mounted(text, self._resource.prefix)
                except ChipListError:
                    continue
                mask |= found if found.bit_count() <= self._maximum else NONE
        return mask

    def changed(self, earlier: int, held: int) -> int:
        """Returns ``earlier``, and reports those of its chips that the Pod does not hold."""
        if earlier & ~held:
            self.report_disagreement(
                self._resource.name,
                f"holds {self.listed(held)} of node {self._task.node}, "
                f"was annotated with {self.listed(earlier & ~held)} there before",
                "no Pod is given those while this one exists",
            )
        return earlier

    def _read(self, key: str, text: str) -> int:
        try:
            mask = (parse_mounted if key == ASCEND_REAL else parse_chips)(text, self._resource.prefix)
        except ChipListError as error:
            self._problems.append(malformed_annotation(self._task, key, str(error)))
            return NONE
        if mask.bit_count() <= self._maximum:
            return mask
        self.report_disagreement(key, f"names {mask.bit_count()} chips: {self.listed(mask)}", "ignored")
        return NONE

    def differing_from(self, recorded: int) -> int:
        """Returns the chips that annotations name although the Pod was bound with others. Device plugins ignore lists
        of another length than the request."""
        doubtful = NONE
        annotations = self._task.annotations
        for key, mask in ((self._resource.name, self.assigned()), (ASCEND_REAL, self.mounted())):
            if mask == recorded or (key == ASCEND_REAL and not annotations.get(key)):
                continue
            if mask.bit_count() == recorded.bit_count():
                doubtful |= mask
            listed = self.listed(mask) if mask else "none that count"
            self.report_disagreement(
                key,
                f"bound to node {self._task.node} with {self.listed(recorded)}, annotated with {listed}",
                f"no Pod is given {self.listed(recorded | doubtful)} while this one exists",
            )
        return doubtful

    def report_unknown(self, why: str) -> None:
        """Reports that the annotations of the Pod are not trusted."""
        consequence = "while it exists, no Pod is given chips there that the device plugin does not report as free"
        self.report_disagreement(self._resource.name, why, consequence)

    def report_disagreement(self, key: str, what: str, consequence: str) -> None:
        text = f"asked for {self._maximum} {self._resource.name}; {what}"
        self._problems.append(disagreement(self._task, key, text, consequence))

    def listed(self, mask: int) -> str:
        return format_chips(ids_of(mask), self._resource.prefix) or "none"
