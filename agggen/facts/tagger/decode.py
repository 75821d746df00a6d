"""From tag scores to the best valid BIO sequence: I-x only after B-x or I-x, B-V at the predicate and nowhere else."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

IMPOSSIBLE = -1e9


def tags_of(roles: Sequence[str]) -> tuple[str, ...]:
    """The tags for `roles` (all but V), by number: O, B-V, then B- and I- of each role."""
    return ("O", "B-V", *(f"{edge}-{role}" for role in roles for edge in "BI"))


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
