"""From tag scores to the best frame: valid BIO tags, one predicate, each numbered role at most once.

In valid tags I-x comes only after B-x or I-x; B-V stands at the predicate and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

IMPOSSIBLE = -1e9


@dataclass(frozen=True, slots=True)
class Role:
    """One predicate's frame: `tags` are BIO tags ("B-ARG0"), one a word, with B-V at the word `predicate`."""

    predicate: int
    tags: tuple[str, ...]


def tags_of(roles: Sequence[str]) -> tuple[str, ...]:
    """The tags for `roles` (all but V), by number: O, B-V, then B- and I- of each role."""
    return ("O", "B-V", *(f"{edge}-{role}" for role in roles for edge in "BI"))


def best_frames(
    scores: np.ndarray, predicates: np.ndarray, lengths: np.ndarray, roles: Sequence[str]
) -> list[list[int]]:
    """The best valid tag numbers of each frame in which no numbered role (ARG0, ARG1, ...) stands twice.

    Where the best sequence has a role twice, the phrase nearest to the predicate keeps it, and what is best without
    that role elsewhere is looked for anew. Shapes as in `best_tags`; `roles` are those that the tags were made of.
    """
    found = best_tags(scores, predicates, lengths)
    once = [2 * number + 2 for number, role in enumerate(roles) if role.startswith("ARG") and role[3:].isdigit()]
    forbidden = np.zeros_like(scores, dtype=bool)
    again = list(range(len(found)))
    for _ in once:
        again = [frame for frame in again if _forbid_doubles(found[frame], predicates[frame], once, forbidden[frame])]
        if not again:
            break
        tried = np.where(forbidden[again], IMPOSSIBLE, scores[again])
        for frame, path in zip(again, best_tags(tried, predicates[again], lengths[again]), strict=True):
            found[frame] = path
    return found


def _forbid_doubles(path: Sequence[int], predicate: int, once: Sequence[int], forbidden: np.ndarray) -> bool:
    """Marks in `forbidden` (T, K) where a role of `path` may not stand since it stands elsewhere; whether any does."""
    doubled = False
    for begin in once:
        starts = [place for place, number in enumerate(path) if number == begin]
        if len(starts) < 2:
            continue
        doubled = True
        phrases = [(start, _end(path, start, begin + 1)) for start in starts]
        first, last = min(phrases, key=lambda phrase: max(phrase[0] - predicate, predicate - phrase[1] + 1))
        forbidden[:first, begin : begin + 2] = forbidden[last:, begin : begin + 2] = True
        forbidden[first + 1 : last, begin] = True
    return doubled


def _end(path: Sequence[int], start: int, inside: int) -> int:
    end = start + 1
    while end < len(path) and path[end] == inside:
        end += 1
    return end


def best_tags(scores: np.ndarray, predicates: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """The best valid tag numbers of each frame.

    `scores` (F, T, K) by the numbers of ``tags_of``, `predicates` (F,) and `lengths` (F,). The only constraint between
    neighbours is that of I-x, so a step costs O(K) a frame instead of O(K^2).
    """
    frames, width, count = scores.shape
    rows = np.arange(frames)
    scores = scores.astype(np.float64)
    fixed = scores[rows, predicates, 1]
    scores[:, :, 1] = IMPOSSIBLE
    scores[rows, predicates] = IMPOSSIBLE
    scores[rows, predicates, 1] = fixed
    begins, insides = np.arange(2, count, 2), np.arange(3, count, 2)
    best = scores[:, 0].copy()
    best[:, insides] = IMPOSSIBLE
    back = np.empty((frames, width, count), dtype=np.int32)
    ends = np.zeros(frames, dtype=np.int64)
    ends[lengths == 1] = best[lengths == 1].argmax(1)
    for place in range(1, width):
        top = best.argmax(1)  # (F,)
        back[:, place] = top[:, None]
        step = np.repeat(best[rows, top][:, None], count, axis=1)
        from_inside = best[:, insides] > best[:, begins]
        back[:, place, insides] = np.where(from_inside, insides, begins)
        step[:, insides] = np.where(from_inside, best[:, insides], best[:, begins])
        best = step + scores[:, place]
        last = lengths == place + 1
        ends[last] = best[last].argmax(1)
    found = []
    for frame in range(frames):
        number = int(ends[frame])
        path = [number]
        for place in range(int(lengths[frame]) - 1, 0, -1):
            number = int(back[frame, place, number])
            path.append(number)
        found.append(path[::-1])
    return found
