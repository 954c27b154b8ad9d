"""Filters made from columns."""

import numpy as np

from scheduler.framework.columns import UNBOUNDED, CodedFilter


def test_a_coded_filter_refuses_each_node_for_its_own_reason() -> None:
    condition = CodedFilter(np.array([-1, 0, 1, 1], dtype=np.int32), ("too old", "too far", "too dear"))
    assert condition.room(np.array([0, 1, 2])).tolist() == [UNBOUNDED, 0, 0]
    assert list(condition.reasons(np.array([1, 2, 3]))) == [("too old", 1), ("too far", 2)]
