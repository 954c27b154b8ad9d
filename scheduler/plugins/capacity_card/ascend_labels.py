"""The models of Ascend NPUs by the labels that MindCluster's components set on nodes.

The device plugin reports the name of the chip (``910B3``, ``310P3``, ``Ascend950PR``) and the type of the server
(``Ascend910B-20``). Its newer releases use keys with the prefix ``huawei.com/`` and write both for a while. Users label
nodes with ``accelerator-type`` (``module-910b-8``). The chip of an A3 server is called ``Ascend910``, as those of older
servers, so the most specific label counts, in this order.
"""

import re
from collections.abc import Iterator, Mapping
from typing import Final

from scheduler.api.names import (
    ACCELERATOR,
    ACCELERATOR_TYPE,
    CHIP_NAME,
    NPU_CHIP_NAME,
    NPU_SERVER_TYPE,
    SERVER_TYPE,
)

ASCEND_LABELS: Final = (NPU_CHIP_NAME, CHIP_NAME, NPU_SERVER_TYPE, SERVER_TYPE, ACCELERATOR_TYPE, ACCELERATOR)
"""The labels that name a model, the most specific one first."""
_PREFIX: Final = "Ascend"
_FAMILIES: Final = frozenset({"Ascend310", "Ascend310P", "Ascend910", "Ascend950"})
"""Names that stand for several models."""
_FORMER_NAMES: Final = {"Ascend710": "Ascend310P"}
"""Names in device plugins of before May 2022 -> the names since then."""
_CHIP: Final = re.compile(r"(?:Ascend-?)?([0-9][A-Za-z0-9_.-]{0,31}(?<![-_.]))", re.IGNORECASE)
_SERVER: Final = re.compile(r"(Ascend[0-9][A-Za-z0-9]{0,31})(?:-.*)?")
_TYPE: Final = re.compile(r"(?:module|card)-(910b|a3)(?:-.*)?|(module|card|half)|(?:350|850|950)-.*")
_SPECIFIC: Final = re.compile(r"huawei\.com/(Ascend[0-9]{3}[A-Z][A-Za-z0-9]*(?:-[0-9]+)?)")
"""Resources that HAMi's device plugin names by the model: ``huawei.com/Ascend910B3``, ``huawei.com/Ascend910B4-1``."""


def ascend_model(labels: Mapping[str, str]) -> str:
    """Returns the model of a node's NPUs: the first specific name, else the first name of a family; "" if no label
    names one."""
    named = (_READERS[key](labels[key]) for key in ASCEND_LABELS if key in labels)
    found = [_FORMER_NAMES.get(model, model) for model in named if model]
    return next((model for model in found if model not in _FAMILIES), found[0] if found else "")


def chip_problems(labels: Mapping[str, str]) -> Iterator[tuple[str, str]]:
    """Yields the labels that should name a chip and do not, each with the problem."""
    for key in (NPU_CHIP_NAME, CHIP_NAME):
        if key in labels and not _of_chip(labels[key]):
            yield key, f"{labels[key][:64]!r} is not the name of a chip, as 910B3 is"


def _of_chip(value: str) -> str:
    match = _CHIP.fullmatch(value)
    return "" if match is None else f"{_PREFIX}{match[1]}"


def _of_server(value: str) -> str:
    match = _SERVER.fullmatch(value)
    return "" if match is None else match[1]


def _of_type(value: str) -> str:
    match = _TYPE.fullmatch(value)
    if match is None:
        return ""
    if match[1] is not None:
        return {"910b": "Ascend910B", "a3": "Ascend910A3"}[match[1]]
    return "Ascend910" if match[2] is not None else "Ascend950"


def _of_accelerator(value: str) -> str:
    return _of_chip(value.removeprefix("huawei-"))


_READERS: Final = {
    NPU_CHIP_NAME: _of_chip,
    CHIP_NAME: _of_chip,
    NPU_SERVER_TYPE: _of_server,
    SERVER_TYPE: _of_server,
    ACCELERATOR_TYPE: _of_type,
    ACCELERATOR: _of_accelerator,
}


def model_of_resource(resource: str) -> str:
    """Returns the model in the name of a resource; "" if it names none, or a family."""
    match = _SPECIFIC.fullmatch(resource)
    return "" if match is None or match[1] in _FAMILIES else match[1]
