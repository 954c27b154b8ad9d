"""Names without uids."""

import pytest

from scheduler.api.job import without_uid

UID = "0b2e0c5a-3b0f-4f7e-9d55-1c1b6c8b7a10"


@pytest.mark.parametrize(
    ("name", "shown"),
    [
        (f"train-{UID}", "train"),
        (f"a.b-c-{UID}", "a.b-c"),
        ("train", "train"),
        ("", ""),
        (UID, UID),
        (f"-{UID}", ""),
        (f"train-{UID}x", f"train-{UID}x"),
        (f"train-{UID.upper()}", f"train-{UID.upper()}"),
    ],
)
def test_the_uid_of_a_job_at_the_end_of_a_name_is_left_out(name: str, shown: str) -> None:
    assert without_uid(name) == shown


def test_the_name_for_pods_without_a_pod_group_has_a_hash_in_place_of_the_uid() -> None:
    shown = without_uid(f"podgroup-{UID}")
    assert shown.startswith("podgroup-")
    assert len(shown) == len("podgroup-") + 12
    assert shown != without_uid(f"podgroup-{UID[:-1]}1")
    assert UID[:8] not in shown
