"""Whether a queue takes vcjobs."""

from scheduler.api.names import ROOT_QUEUE
from scheduler.api.queue import OPEN
from scheduler.webhooks.contract import ClusterView
from scheduler.webhooks.queue.hierarchy import children_of, no_such_queue


def queue_problems(name: str, cluster: ClusterView) -> str:
    queue = cluster.queue(name)
    if queue is None:
        return f" unable to find job queue: {no_such_queue(name)};"
    text = ""
    if queue.status.state not in (OPEN, ""):  # "": just created, and the controller has not opened it yet
        state = queue.status.state
        text = f" can only submit job to queue with state `{OPEN}`, queue `{name}` status is `{state}`;"
    if name == ROOT_QUEUE:
        return f"{text} can not submit job to root queue;"
    children = len(children_of(name, cluster))
    if children:
        text += f" can only submit job to leaf queue, queue `{name}` has {children} child queues;"
    return text
