"""The arguments of the plugin. An argument out of its bounds is reported, and the default applies."""

from typing import Final

import numpy as np

from scheduler.api.names import CPU, MEMORY
from scheduler.api.quantity import QuantityError, parse_quantity
from scheduler.api.resource import scale_of
from scheduler.framework.arguments import Arguments
from scheduler.plugins.usage.estimated_load import Rates, Weights

_UNITS: Final = {CPU: 1.0, MEMORY: 1024.0 * 1024}
"""The unit of a plain number in ``be_cpu`` (milli-cores) and ``be_mem`` (MiB)."""


class UsageSettings:
    """The arguments with Volcano's names and defaults."""

    def __init__(self, arguments: Arguments) -> None:
        thresholds, estimator = arguments.nested("thresholds"), arguments.nested("estimator")
        self.weight = arguments.integer("usage.weight", 5, least=0)
        """The weight of the score (0 to 100)."""
        self.weights = Weights(
            arguments.integer("cpu.weight", 1, least=0), arguments.integer("memory.weight", 1, least=0)
        )
        self.max_cpu = thresholds.integer("cpu", 80, least=0, most=100)
        """Percentage of cpu usage above which a node takes no new Pods."""
        self.max_memory = thresholds.integer("mem", 80, least=0, most=100)
        self.rates = _rates(estimator)


def _rates(estimator: Arguments) -> Rates:
    defaults = Rates()

    def ratio(key: str, default: float) -> float:
        return estimator.number(key, default, least=0, most=1)

    cpu, memory = defaults.best_effort.tolist()
    return Rates(
        request=ratio("request_ratio", defaults.request),
        burst=ratio("burst_ratio", defaults.burst),
        risk_threshold=ratio("risk_threshold", defaults.risk_threshold),
        risk=estimator.number("risk_factor", defaults.risk, least=1),
        best_effort=np.array([_amount(estimator, "be_cpu", CPU, cpu), _amount(estimator, "be_mem", MEMORY, memory)]),
    )


def _amount(arguments: Arguments, key: str, resource: str, default: float) -> float:
    """Reads a quantity, or an integer in the unit of ``_UNITS``."""
    value = arguments.get(key)
    if value is None:
        return default
    try:
        bare = isinstance(value, int) and not isinstance(value, bool)
        amount = value * _UNITS[resource] if bare else float(parse_quantity(str(value), scale_of(resource)))
    except QuantityError:
        return arguments.set_aside(key, value, "not a quantity", default)
    return amount if amount >= 0 else arguments.set_aside(key, value, "negative", default)
