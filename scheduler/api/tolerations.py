"""Whether a Pod tolerates a taint (Kubernetes' rule)."""

from collections.abc import Iterable

from scheduler.api.objects import Taint, Toleration

NO_SCHEDULE, PREFER_NO_SCHEDULE, NO_EXECUTE = "NoSchedule", "PreferNoSchedule", "NoExecute"


def tolerates(tolerations: Iterable[Toleration], taint: Taint) -> bool:
    """Whether any of the tolerations covers the taint: its effect and key (empty: any), and its value unless the
    operator is Exists. An operator that Kubernetes does not know covers nothing."""
    return any(_covers(toleration, taint) for toleration in tolerations)


def _covers(toleration: Toleration, taint: Taint) -> bool:
    if toleration.effect not in ("", taint.effect) or toleration.key not in ("", taint.key):
        return False
    if toleration.operator == "Exists":
        return True
    return toleration.operator in ("", "Equal") and toleration.key != "" and toleration.value == taint.value
