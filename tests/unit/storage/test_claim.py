"""A claim on a folder or store: retries, a second holder, and a holder that lost it."""

import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

import pytest

from agggen_platform.storage.claim import ClaimedError, claim, heartbeat
from agggen_platform.storage.errors import StorageError
from agggen_platform.storage.folder import Folder
from tests.sent import sent

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

    def update(self, name: str, change: Callable[[bytes | None], bytes | None]) -> bytes | None:
        if self.refused:
            self.refused -= 1
            raise StorageError("refused")
        if (new := change(self.read(name))) is not None:
            self.content[name] = new
        if self.unanswered:
            self.unanswered -= 1
            raise StorageError("no answer")
        return self.read(name)

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


@pytest.mark.parametrize("clock", [time.time, lambda: 0.0])
def test_a_second_holder_is_refused_while_the_first_lives(
    clock: Callable[[], float], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Independently of the system's clock."""
    monkeypatch.setattr(time, "time", clock)
    place = Place()
    refused = pytest.raises(ClaimedError, match="another job works on a place")
    with heartbeat(place, BEAT), refused, heartbeat(place, BEAT):
        pass


def test_a_worker_is_refused_once_another_driver_took_over_from_its_own(tmp_path: Path) -> None:
    with claim(Folder(str(tmp_path))) as held:
        check_in_worker = sent(held)
        check_in_worker()
    check_in_worker()  # nobody took over
    refused = pytest.raises(ClaimedError, match="it took over from this one")
    with claim(Folder(str(tmp_path))) as other:
        other()
        with refused:
            check_in_worker()


def test_a_refused_second_holder_is_told_who_holds_the_claim(tmp_path: Path) -> None:
    refused = pytest.raises(ClaimedError, match=r"another job works on .* \(process \d+ on ")
    with claim(Folder(str(tmp_path))), refused, claim(Folder(str(tmp_path))):
        pass
