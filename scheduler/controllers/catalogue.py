"""All controllers by name, and the selection of ``--controllers``."""

from collections.abc import Iterable, Sequence
from typing import Final

from scheduler.api.names import DEFAULT_SCHEDULER_NAME, SYSTEM_NAMESPACE
from scheduler.controllers.acjob import AscendJobController
from scheduler.controllers.controller import Controller
from scheduler.controllers.cronjob import CronJobController
from scheduler.controllers.hypernode import HyperNodeController
from scheduler.controllers.job import JobController
from scheduler.controllers.job.garbage import GarbageController
from scheduler.controllers.job.plugins import make_plugins
from scheduler.controllers.jobflow import JobFlowController, JobTemplateController
from scheduler.controllers.podgroup import PodGroupController
from scheduler.controllers.queue import QueueController
from scheduler.controllers.ranktable import RankTableController
from scheduler.controllers.store import Key, Store

_ABSENT = frozenset({"sharding-controller"})
"""Volcano's controllers that do not exist here; lists written for Volcano may name them."""


def configuration_name(release: str) -> str:
    """The name of the ConfigMap that configures the controllers of a Helm release (Volcano's scheme)."""
    return f"{release}-controller-configmap"


CONFIGURATION: Final[Key] = (SYSTEM_NAMESPACE, configuration_name(DEFAULT_SCHEDULER_NAME))
"""Namespace and name of that ConfigMap, unless others are given."""


class SelectionError(ValueError):
    """A list of controllers names one that does not exist."""


def make_controllers(
    store: Store,
    scheduler_names: Sequence[str],
    selection: Iterable[str] = ("*",),
    configuration: Key = CONFIGURATION,
    *,
    head_start: float = 0.0,
) -> list[Controller]:
    """Creates the selected controllers.

    ``selection`` has the form of Volcano's flag: ``*`` for all, ``name`` for one, ``-name`` for all but one.
    ``configuration``: namespace and name of the ConfigMap that configures the controllers. ``head_start``: as for
    PodGroupController. Raises SelectionError.
    """
    everything: list[Controller] = [
        JobController(store, make_plugins, scheduler_names),
        CronJobController(store),
        JobFlowController(store),
        JobTemplateController(store),
        GarbageController(store),
        PodGroupController(store, scheduler_names, head_start),
        QueueController(store),
        HyperNodeController(store, configuration),
        AscendJobController(store, scheduler_names),
        RankTableController(store),
    ]
    wanted = [text.strip() for text in selection if text.strip()]
    known = {controller.name for controller in everything} | _ABSENT | {"*"}
    for text in wanted:
        if text.removeprefix("-") not in known:
            raise SelectionError(f"no controller is called {text!r}: there are {', '.join(sorted(known))}")
    return [
        controller
        for controller in everything
        if f"-{controller.name}" not in wanted and (controller.name in wanted or "*" in wanted)
    ]
