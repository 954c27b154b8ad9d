"""The version of the model, shared by those that change it."""


class Version:
    """A number that only grows."""

    __slots__ = ("number",)

    def __init__(self) -> None:
        self.number = 0

    def grow(self) -> None:
        """Something has changed that a session could decide differently for."""
        self.number += 1
