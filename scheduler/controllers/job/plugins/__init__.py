"""The job plugins: what a vcjob's ``spec.plugins`` may name, and how each is made for a job."""

from collections.abc import Callable, Sequence
from typing import Final

from scheduler.api import batch
from scheduler.controllers.job.plugins.contract import JobPlugin, JobPluginError, naming_plugin
from scheduler.controllers.job.plugins.env import Env
from scheduler.controllers.job.plugins.hcclrank import HcclRank
from scheduler.controllers.job.plugins.mpi import Mpi
from scheduler.controllers.job.plugins.pytorch import Pytorch
from scheduler.controllers.job.plugins.ray import Ray
from scheduler.controllers.job.plugins.ssh import Ssh
from scheduler.controllers.job.plugins.svc import Svc
from scheduler.controllers.job.plugins.tensorflow import Tensorflow

_MAKERS: Final[dict[str, Callable[[batch.Job, Sequence[str]], JobPlugin]]] = {
    "env": Env,
    "hcclrank": HcclRank,
    "mpi": Mpi,
    "pytorch": Pytorch,
    "ray": Ray,
    "ssh": Ssh,
    "svc": Svc,
    "tensorflow": Tensorflow,
}
PLUGIN_NAMES: Final = frozenset(_MAKERS)


def make_plugins(job: batch.Job) -> dict[str, JobPlugin]:
    """The plugins that a job names, sorted by name; they mutate its Pods in this order.

    They are good for this version of the job: what they say of its hosts is computed once for all Pods. Raises
    PluginError, which names the plugin and the argument that does not fit.
    """
    plugins = {}
    for name, arguments in sorted((job.spec.plugins or {}).items()):
        if name not in _MAKERS:
            raise JobPluginError(f"plugin {name!r} is unknown; there are {', '.join(sorted(_MAKERS))}")
        with naming_plugin(name):
            plugins[name] = _MAKERS[name](job, arguments or ())
    return plugins
