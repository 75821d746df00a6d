"""A claim in a place that no kernel watches."""

from __future__ import annotations

from dataclasses import dataclass, field

import pytest

from agggen_platform.storage.claim import ClaimedError, heartbeat
from agggen_platform.storage.errors import StorageError

BEAT = 0.05


@dataclass
class Place:
    """A place in memory. The next `refused` writes fail, the next `unanswered` ones arrive and fail."""

    address: str = "a place"
    content: dict[str, bytes] = field(default_factory=dict)
    refused: int = 0
    unanswered: int = 0

    def read(self, name: str) -> bytes | None:
        return self.content.get(name)

    def write(self, name: str, content: bytes) -> None:
        if self.refused:
            self.refused -= 1
            raise StorageError("refused")
        self.content[name] = content
        if self.unanswered:
            self.unanswered -= 1
            raise StorageError("no answer")

    def delete(self, name: str) -> None:
        self.content.pop(name, None)


@pytest.mark.parametrize("place", [Place(refused=2), Place(unanswered=2), Place(refused=1, unanswered=1)])
def test_a_first_write_that_fails_is_tried_again(place: Place) -> None:
    with heartbeat(place, BEAT) as check:
        check()
        assert place.content
    assert not place.content


def test_a_place_that_never_answers_is_an_error() -> None:
    with pytest.raises(StorageError), heartbeat(Place(refused=1000), BEAT):
        pass


def test_a_second_holder_is_refused_while_the_first_lives() -> None:
    place = Place()
    refused = pytest.raises(ClaimedError, match="another job works on a place")
    with heartbeat(place, BEAT), refused, heartbeat(place, BEAT):
        pass
