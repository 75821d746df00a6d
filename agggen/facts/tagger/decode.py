"""Decodes tag scores to frames: valid BIO tags, one predicate, each numbered role at most once.

Tags are valid if I-x only follows B-x or I-x, and B-V is at the predicate only.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

IMPOSSIBLE = -1e9


Tags = tuple[str, ...]
"""A frame as BIO tags ("B-ARG0"), one per word, with B-V at its predicate."""


def tags_of(roles: Sequence[str]) -> Tags:
    """The tags of `roles` (all roles except V) by tag number: O, B-V, then B- and I- of each role."""
    return ("O", "B-V", *(f"{bio}-{role}" for role in roles for bio in "BI"))


def best_frames(
    scores: np.ndarray, predicates: np.ndarray, lengths: np.ndarray, roles: Sequence[str]
) -> list[list[int]]:
    """The best valid tag numbers of each frame with each numbered role (ARG0, ARG1, ...) at most once.

    If the best sequence has a role twice, the phrase nearest to the predicate keeps the role, and the frame is decoded
    again with the role forbidden elsewhere. `roles` is as in `tags_of`, the other arguments as in `best_tags`.
    """
    paths = best_tags(scores, predicates, lengths)
    begin_tags = [2 * number + 2 for number, role in enumerate(roles) if role.startswith("ARG") and role[3:].isdigit()]
    forbidden = np.zeros_like(scores, dtype=bool)
    remaining = list(range(len(paths)))
    for _ in begin_tags:
        remaining = [
            frame
            for frame in remaining
            if _forbid_duplicates(paths[frame], predicates[frame], begin_tags, forbidden[frame])
        ]
        if not remaining:
            break
        allowed_scores = np.where(forbidden[remaining], IMPOSSIBLE, scores[remaining])
        for frame, path in zip(
            remaining, best_tags(allowed_scores, predicates[remaining], lengths[remaining]), strict=True
        ):
            paths[frame] = path
    return paths


def _forbid_duplicates(path: Sequence[int], predicate: int, begin_tags: Sequence[int], forbidden: np.ndarray) -> bool:
    """Sets `forbidden` (T, K) for the roles (by B- tag) that `path` has twice; returns whether there are any."""
    any_duplicate = False
    for begin in begin_tags:
        starts = [position for position, number in enumerate(path) if number == begin]
        if len(starts) < 2:
            continue
        any_duplicate = True
        phrases = [(start, _phrase_end(path, start, begin + 1)) for start in starts]
        first, last = min(phrases, key=lambda phrase: max(phrase[0] - predicate, predicate - phrase[1] + 1))
        forbidden[:first, begin : begin + 2] = forbidden[last:, begin : begin + 2] = True
        forbidden[first + 1 : last, begin] = True
    return any_duplicate


def _phrase_end(path: Sequence[int], start: int, inside: int) -> int:
    end = start + 1
    while end < len(path) and path[end] == inside:
        end += 1
    return end


def best_tags(scores: np.ndarray, predicates: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """The best valid tag numbers of each frame (Viterbi).

    Only the tags I-x depend on the preceding tag, so a step costs O(K) per frame, not O(K^2).

    Args:
        scores: (F, T, K), by the tag numbers of ``tags_of``.
        predicates: (F,), the index of the predicate's word.
        lengths: (F,), the number of words of the frame's sentence.
    """
    frames, width, count = scores.shape
    rows = np.arange(frames)
    scores = scores.astype(np.float64)
    predicate_scores = scores[rows, predicates, 1]
    scores[:, :, 1] = IMPOSSIBLE
    scores[rows, predicates] = IMPOSSIBLE
    scores[rows, predicates, 1] = predicate_scores
    begins, insides = np.arange(2, count, 2), np.arange(3, count, 2)
    best = scores[:, 0].copy()
    best[:, insides] = IMPOSSIBLE
    back = np.empty((frames, width, count), dtype=np.int32)
    ends = np.zeros(frames, dtype=np.int64)
    ends[lengths == 1] = best[lengths == 1].argmax(1)
    for position in range(1, width):
        top = best.argmax(1)  # (F,)
        back[:, position] = top[:, None]
        step = np.repeat(best[rows, top][:, None], count, axis=1)
        from_inside = best[:, insides] > best[:, begins]
        back[:, position, insides] = np.where(from_inside, insides, begins)
        step[:, insides] = np.where(from_inside, best[:, insides], best[:, begins])
        best = step + scores[:, position]
        last = lengths == position + 1
        ends[last] = best[last].argmax(1)
    paths = []
    for frame in range(frames):
        number = int(ends[frame])
        path = [number]
        for position in range(int(lengths[frame]) - 1, 0, -1):
            number = int(back[frame, position, number])
            path.append(number)
        paths.append(path[::-1])
    return paths
