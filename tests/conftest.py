"""How tests are spread over processes."""

import pytest


@pytest.hookimpl(tryfirst=True)
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Tests of one file that share a control plane run in one process, in their order."""
    for item in items:
        if item.get_closest_marker("controlplane") is not None:
            item.add_marker(pytest.mark.xdist_group(item.path.name))
