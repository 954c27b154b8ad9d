"""The audit log of an API server on which roles run with the rights of the chart."""

import json
import tempfile
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from controlplane.manifests import NAMESPACE, RELEASE
from tests.rights_in_use import Request, collect

_POLICY = {
    "apiVersion": "audit.k8s.io/v1",
    "kind": "Policy",
    "omitStages": ["RequestReceived"],
    "rules": [{"level": "Metadata", "userGroups": [f"system:serviceaccounts:{NAMESPACE}"]}],
}
_NAMED = {
    "apiservices",
    "configmaps",
    "leases",
    "mutatingwebhookconfigurations",
    "secrets",
    "validatingwebhookconfigurations",
}
"""The resources that rules limit to names."""


class AuditLog:
    """The requests of the service accounts in the namespace of the release."""

    def __init__(self, directory: Path) -> None:
        policy = directory / "audit-policy.json"
        policy.write_text(json.dumps(_POLICY), encoding="utf-8")
        self._file = directory / "audit.log"
        self.options = [
            f"--audit-policy-file={policy}",
            f"--audit-log-path={self._file}",
            "--audit-log-mode=blocking",
            "--audit-log-maxsize=4096",  # MiB: a log that is rotated would lose its beginning
        ]
        """Options of the API server."""

    def requests(self) -> Counter[Request]:
        """The requests so far."""
        found: Counter[Request] = Counter()
        if self._file.exists():
            with self._file.open(encoding="utf-8") as lines:
                for line in lines:
                    found[_request(json.loads(line))] += 1
        return found


def _request(event: dict[str, Any]) -> Request:
    reference = event.get("objectRef") or {}
    resource = reference.get("resource", "")
    status = event.get("responseStatus") or {}
    denied = (event.get("annotations") or {}).get("authorization.k8s.io/decision") == "forbid"
    return Request(
        event["user"]["username"].rpartition(":")[2].removeprefix(f"{RELEASE}-"),
        event["verb"],
        reference.get("apiGroup", ""),
        "/".join(filter(None, (resource, reference.get("subresource")))),
        reference.get("namespace", ""),
        reference.get("name", "") if resource in _NAMED else "",
        status.get("code", 0),
        # An admission plugin checks the right to block the deletion of an owner.
        denied or (status.get("code") == 403 and "blockOwnerDeletion" in status.get("message", "")),
    )


@contextmanager
def audited() -> Iterator[AuditLog]:
    """An audit log whose requests count for the run (``tests.rights_in_use``)."""
    with tempfile.TemporaryDirectory(prefix="audit-") as directory:
        log = AuditLog(Path(directory))
        yield log
        collect(log.requests())
