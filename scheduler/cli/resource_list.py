"""Amounts of resources on the command line."""

from typing import Any

import click

from scheduler.api.quantity import QuantityError, parse_quantity


class ResourceList(click.ParamType[dict[str, str]]):
    """``cpu=1000m,memory=100Mi``; quantities as Kubernetes writes them."""

    name = "resource=quantity,..."

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> dict[str, str]:
        if isinstance(value, dict):
            return value
        amounts = {}
        for part in str(value).split(",") if value else ():
            resource, equals, quantity = part.partition("=")
            if not resource or not equals or "=" in quantity:
                self.fail(f"invalid argument syntax {part}, expected <resource>=<value>", param, ctx)
            try:
                parse_quantity(quantity)
            except QuantityError as error:
                self.fail(f"{resource}: {error}", param, ctx)
            amounts[resource] = quantity.strip()
        return amounts


RESOURCE_LIST = ResourceList()
