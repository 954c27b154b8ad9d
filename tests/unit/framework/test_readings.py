"""What was read of objects is kept with them."""

from scheduler.framework.readings import Readings


class Reader:
    """Reads texts, and remembers which."""

    def __init__(self) -> None:
        self.readings: Readings[str, str] = Readings()
        self.read: list[str] = []

    def __call__(self, **objects: object) -> dict[str, str]:
        self.read.clear()
        return self.readings.of(((key, (obj,)) for key, obj in objects.items()), self._make)

    def _make(self, key: str) -> str:
        self.read.append(key)
        return key.upper()


def test_what_is_the_same_object_is_not_read_again() -> None:
    reader, one, other = Reader(), ["x"], ["x"]
    assert reader(a=one, b=one) == {"a": "A", "b": "B"}
    assert reader.read == ["a", "b"]
    assert reader(a=one, b=other) == {"a": "A", "b": "B"}
    assert reader.read == ["b"]


def test_what_was_not_wanted_for_once_is_forgotten() -> None:
    reader, one = Reader(), ["x"]
    reader(a=one, b=one)
    reader(a=one)
    reader(a=one, b=one)
    assert reader.read == ["b"]
