"""Decodes tag scores to frames: valid BIO tags, one predicate, each numbered role at most once.

Tags are valid if I-x only follows B-x or I-x, and B-V is at the predicate only.
"""

from collections.abc import Sequence

import numpy as np

IMPOSSIBLE_SCORE = -1e9  # of invalid tags

Tags = tuple[str, ...]  # a frame as BIO tags ("B-ARG0"), one per word, with B-V at its predicate


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
        allowed_scores = np.where(forbidden[remaining], IMPOSSIBLE_SCORE, scores[remaining])
        new_paths = best_tags(allowed_scores, predicates[remaining], lengths[remaining])
        for frame, path in zip(remaining, new_paths, strict=True):
            paths[frame] = path
    return paths


def _forbid_duplicates(path: Sequence[int], predicate: int, begin_tags: Sequence[int], forbidden: np.ndarray) -> bool:
    """Sets `forbidden` (T, K) for roles that `path` has twice; returns whether there are any."""
    has_duplicates = False
    for begin in begin_tags:
        starts = [position for position, tag in enumerate(path) if tag == begin]
        if len(starts) < 2:
            continue
        has_duplicates = True
        ends = (next((n for n in range(start + 1, len(path)) if path[n] != begin + 1), len(path)) for start in starts)
        phrases = zip(starts, ends, strict=True)
        first, last = min(phrases, key=lambda phrase: max(phrase[0] - predicate, predicate - phrase[1] + 1))
        forbidden[:first, begin : begin + 2] = forbidden[last:, begin : begin + 2] = True
        forbidden[first + 1 : last, begin] = True
    return has_duplicates


def best_tags(scores: np.ndarray, predicates: np.ndarray, lengths: np.ndarray) -> list[list[int]]:
    """The best valid tag numbers of each frame (Viterbi).

    Only the tags I-x depend on the preceding tag, so a step costs O(K) per frame, not O(K^2).

    Args:
        scores: (F, T, K), by the tag numbers of ``tags_of``.
        predicates: (F,), the index of the predicate's word.
        lengths: (F,), the number of words of the frame's sentence.
    """
    n_frames, width, n_tags = scores.shape
    rows = np.arange(n_frames)
    scores = scores.astype(np.float64)
    predicate_scores = scores[rows, predicates, 1]
    scores[:, :, 1] = IMPOSSIBLE_SCORE
    scores[rows, predicates] = IMPOSSIBLE_SCORE
    scores[rows, predicates, 1] = predicate_scores
    begins, insides = np.arange(2, n_tags, 2), np.arange(3, n_tags, 2)
    best = scores[:, 0].copy()
    best[:, insides] = IMPOSSIBLE_SCORE
    previous_tags = np.empty((n_frames, width, n_tags), dtype=np.int32)
    last_tags = np.zeros(n_frames, dtype=np.int64)
    last_tags[lengths == 1] = best[lengths == 1].argmax(1)
    for position in range(1, width):
        best_tag = best.argmax(1)  # (F,)
        previous_tags[:, position] = best_tag[:, None]
        best_previous = np.repeat(best[rows, best_tag][:, None], n_tags, axis=1)
        from_inside = best[:, insides] > best[:, begins]
        previous_tags[:, position, insides] = np.where(from_inside, insides, begins)
        best_previous[:, insides] = np.where(from_inside, best[:, insides], best[:, begins])
        best = best_previous + scores[:, position]
        is_last = lengths == position + 1
        last_tags[is_last] = best[is_last].argmax(1)
    paths = []
    for frame in range(n_frames):
        tag = int(last_tags[frame])
        path = [tag]
        for position in range(int(lengths[frame]) - 1, 0, -1):
            tag = int(previous_tags[frame, position, tag])
            path.append(tag)
        paths.append(path[::-1])
    return paths
