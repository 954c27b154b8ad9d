"""Names without the uids that controllers put into them.

The PodGroup of a vcjob is called ``<job>-<uid of the job>``, and that of Pods without one ``podgroup-<uid of their
owner>``. A user who knows the uid of an object can name it as the owner of objects elsewhere. So metrics, which users
of all namespaces may read, have no uids.
"""

import re
from hashlib import blake2b
from typing import Final

from scheduler.api.names import PODGROUP_PREFIX

_DIGITS: Final = 12
_UID: Final = re.compile("[0-9a-f]{8}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{4}-[0-9a-f]{12}")
_UID_LENGTH: Final = 36


def without_uid(name: str) -> str:
    """The name of a PodGroup without the uid at its end: that of the vcjob, or ``podgroup-`` with a short hash."""
    uid = name[-_UID_LENGTH:]
    rest = name[:-_UID_LENGTH]
    if not rest.endswith("-") or _UID.fullmatch(uid) is None:
        return name
    if rest == PODGROUP_PREFIX:
        return rest + blake2b(uid.encode(), digest_size=_DIGITS // 2).hexdigest()
    return rest[:-1]
