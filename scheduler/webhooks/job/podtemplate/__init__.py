"""Pod templates: what Kubernetes would refuse in Pods made from them.

A re-creation of the API server's own validation, so that a vcjob is refused when it is applied and not when its Pods
are made; ``spec`` puts together what the other files say of one part each. Left to the API server are the fields that
only Windows Pods have, deprecated annotations of seccomp and AppArmor, and sums of containers against the resources of
the Pod as a whole.
"""

from scheduler.webhooks.job.podtemplate.pod_wire import PodTemplate
from scheduler.webhooks.job.podtemplate.spec import check_template

__all__ = ["PodTemplate", "check_template"]
