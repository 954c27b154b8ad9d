"""A record counts only on the object for which the scheduler signed it."""

import pytest

from scheduler.api.signed_records import (
    AdmissionRecord,
    BindingRecord,
    SigningKey,
    read_admission_record,
    read_binding_record,
)

KEY = SigningKey(b"0123456789abcdef")
RECORD = BindingRecord("n1", "research", {"huawei.com/Ascend910": "Ascend910-0,Ascend910-1"})


def test_a_binding_record_is_read_as_written() -> None:
    assert read_binding_record(RECORD.text("uid-1", KEY), "uid-1", KEY) == RECORD


def test_a_record_copied_from_another_pod_is_rejected() -> None:
    assert read_binding_record(RECORD.text("uid-1", KEY), "uid-2", KEY) is None


def test_a_record_signed_with_another_key_is_rejected() -> None:
    assert read_binding_record(RECORD.text("uid-1", SigningKey(b"another")), "uid-1", KEY) is None


def test_a_changed_record_is_rejected() -> None:
    text = RECORD.text("uid-1", KEY)
    assert read_binding_record(text.replace("research", "finance"), "uid-1", KEY) is None
    assert read_binding_record(text.replace("Ascend910-1", "Ascend910-2"), "uid-1", KEY) is None


@pytest.mark.parametrize(
    "text",
    [
        "",
        "[]",
        "{}",
        "null",
        '{"signature":7}',
        '{"signature":"ü"}',
        "[" * 100_000,
        '{"a":' * 100_000,
        KEY.sign("uid-1", {"node": 1, "queue": "q", "chips": {}}),
        KEY.sign("uid-1", {"node": "n", "queue": "q", "chips": {"r": 1}}),
    ],
)
def test_a_malformed_record_is_none(text: str) -> None:
    assert read_binding_record(text, "uid-1", KEY) is None


@pytest.mark.parametrize("shape", ["[]", "{}"])
def test_a_record_is_none_at_every_depth(shape: str) -> None:
    opening, closing = ("[", "]") if shape == "[]" else ('{"a":', "}")
    for depth in range(850, 1050):  # about the recursion limit, where decoding succeeds and encoding fails
        text = f'{{"a":{opening * depth}1{closing * depth},"signature":"00"}}'
        assert read_binding_record(text, "uid-1", KEY) is None


# --- admissions ---
ADMISSION = AdmissionRecord("research", 2, {"cpu": "4", "memory": "1Gi"}, '{"H200": 2}')


@pytest.mark.parametrize("record", [ADMISSION, AdmissionRecord("q", 0, None), AdmissionRecord("q", 1, {})])
def test_an_admission_record_is_read_as_written(record: AdmissionRecord) -> None:
    assert read_admission_record(record.text("uid-1", KEY), "uid-1", KEY) == record


def test_a_copied_or_changed_admission_record_is_rejected() -> None:
    text = ADMISSION.text("uid-1", KEY)
    assert read_admission_record(text, "uid-2", KEY) is None
    assert read_admission_record(text.replace('"4"', '"400"'), "uid-1", KEY) is None
    assert read_admission_record(RECORD.text("uid-1", KEY), "uid-1", KEY) is None


@pytest.mark.parametrize(
    "document",
    [
        {"queue": 1, "minMember": 1, "minResources": None, "cards": ""},
        {"queue": "q", "minMember": "1", "minResources": None, "cards": ""},
        {"queue": "q", "minMember": 1, "minResources": {"cpu": 1}, "cards": ""},
        {"queue": "q", "minMember": 1, "minResources": [], "cards": ""},
        {"queue": "q", "minMember": 1, "minResources": None},
    ],
)
def test_a_signed_document_of_another_form_is_not_an_admission_record(document: dict[str, object]) -> None:
    assert read_admission_record(KEY.sign("uid-1", document), "uid-1", KEY) is None
