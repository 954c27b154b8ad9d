"""Reads from the API server which JobTemplates exist, so that the answer to a write of a JobFlow can warn of missing
ones.

They are not watched: a watch lags behind, so a JobTemplate that is created just before its JobFlow would be missing.
"""

import asyncio
from collections.abc import Collection
from typing import Final

import msgspec
import structlog

from scheduler.api.kinds import JOB_TEMPLATE
from scheduler.cluster.decoding import DECODE_ERRORS
from scheduler.cluster.kube.transport.client import METADATA_LIST, ApiClient
from scheduler.cluster.kube.transport.errors import RequestError
from scheduler.cluster.kube.transport.ratelimit import CallPriority
from scheduler.cluster.kube.watch.pages import Headed, Page

PAGE_SIZE: Final = 500
MAX_PAGES: Final = 10
"""Pages that are read. Of a namespace with more JobTemplates it is not known which exist."""
_decode: Final = msgspec.json.Decoder(Page[Headed]).decode
log = structlog.get_logger(__name__)


class JobTemplateReader:
    """Belongs to one event loop."""

    def __init__(self, client: ApiClient) -> None:
        self._client = client

    async def read(self, namespace: str, seconds: float) -> Collection[str] | None:
        """The names of all JobTemplates of a namespace; None if they are not known in time."""
        names: set[str] = set()
        params = {"limit": str(PAGE_SIZE)}
        try:
            async with asyncio.timeout(seconds):
                for _ in range(MAX_PAGES):
                    body = await self._client.request(
                        "GET",
                        JOB_TEMPLATE.path_in(namespace),
                        params=params,
                        priority=CallPriority.READ,
                        accept=METADATA_LIST,
                    )
                    page = _decode(body)
                    names.update(each.metadata.name for each in page.items or ())
                    if not page.metadata.continuation:
                        return names
                    params["continue"] = page.metadata.continuation
        except (RequestError, TimeoutError, *DECODE_ERRORS) as error:
            log.warning("reading JobTemplates failed", namespace=namespace, error=str(error) or "no answer in time")
        return None
