"""Translation edit rate of tercom 0.7.25, the scorer of the WebNLG challenge (Snover et al. 2006).

Edits are insertions, deletions, substitutions and shifts of word sequences. Shifts are searched greedily in tercom's
order; edits and tried shifts equal tercom's logs on 5,586 texts. sacreBLEU searches in a different order, which changes
the edits of 31 of 1,862 texts and a score by up to .13. Distances are computed bit-parallel (Hyyrö 2003), except where
tercom's pruning may change them.
"""

from collections.abc import Sequence
from typing import NamedTuple

MAX_SHIFT_WORDS = 10
MAX_SHIFT_DISTANCE = 50
BEAM = 20  # cells with more edits above their column's best are pruned; distances up to BEAM are exact
_UNREACHED = 1 << 30
_SUBSTITUTE, _INSERT, _DELETE = range(3)


def count_edits(hypothesis: Sequence[str], reference: Sequence[str]) -> int:
    """The number of edits, shifts included, that change `hypothesis` into `reference`."""
    if not reference:
        return len(hypothesis)
    words, reference_words = list(hypothesis), list(reference)
    occurrences: dict[tuple[str, ...], list[int]] = {}  # the positions of each word sequence in the reference
    for start in range(len(reference)):
        for end in range(start + 1, min(start + MAX_SHIFT_WORDS, len(reference)) + 1):
            occurrences.setdefault(tuple(reference[start:end]), []).append(start)
    n_shifts = 0
    while True:
        alignment = _align(words, reference_words)
        shifted_words = _best_shift(words, reference_words, alignment, _shifts(words, occurrences, alignment))
        if shifted_words is None:
            return n_shifts + alignment.distance
        words = shifted_words
        n_shifts += 1


def edit_distance(words: Sequence[str], reference: Sequence[str]) -> int:
    """The Levenshtein distance of two word sequences; the reference has at least one word.

    Two bit vectors represent a column of the distance table: where its values increase and decrease by one. Two others
    represent the changes along the rows to the next column.
    """
    positions: dict[str, int] = {}  # of each word in the reference, as bits
    for position, word in enumerate(reference):
        positions[word] = positions.get(word, 0) | 1 << position
    all_bits, last_bit = (1 << len(reference)) - 1, 1 << (len(reference) - 1)
    increases, decreases, distance = all_bits, 0, len(reference)
    for word in words:
        matches = positions.get(word, 0)
        vertical = matches | decreases
        horizontal = (((matches & increases) + increases) ^ increases) | matches
        row_increases = decreases | ~(horizontal | increases) & all_bits
        row_decreases = increases & horizontal
        if row_increases & last_bit:
            distance += 1
        elif row_decreases & last_bit:
            distance -= 1
        row_increases = (row_increases << 1 | 1) & all_bits
        increases = (row_decreases << 1) & all_bits | ~(vertical | row_increases) & all_bits
        decreases = row_increases & vertical
    return distance


class _Alignment(NamedTuple):
    distance: int
    hypothesis_errors: list[bool]  # for each word of the hypothesis: whether it is inserted or substituted
    reference_errors: list[bool]  # for each word of the reference: whether it is deleted or substituted
    position: list[int]  # for each word of the reference: the aligned or, if deleted, the last word before it, or -1


_Shift = tuple[int, int]  # the index of the first word, and the index of the word after which it moves (-1: start)


def _best_shift(
    words: list[str], reference: list[str], alignment: _Alignment, shifts: list[list[_Shift]]
) -> list[str] | None:
    """The words after the best shift; None if no shift saves at least one edit, its own cost."""
    min_cost, best = alignment.distance, None
    # A shift of n words saves at most 2 n edits, so the search stops when shorter shifts cannot save more.
    for length in range(MAX_SHIFT_WORDS, 0, -1):
        for start, target in shifts[length]:
            saved = alignment.distance - min_cost
            if saved > 2 * length or (best is not None and saved == 2 * length):
                return best
            shifted = _shift(words, start, start + length, target)
            cost = edit_distance(shifted, reference) + 1
            if cost > BEAM + 1 and (cost < min_cost or (best is None and cost == min_cost)):
                cost = _table(shifted, reference)[0] + 1
            if cost < min_cost or (best is None and cost == min_cost):
                min_cost, best = cost, shifted
    return best


def _shifts(
    words: list[str], occurrences: dict[tuple[str, ...], list[int]], alignment: _Alignment
) -> list[list[_Shift]]:
    """The candidate shifts of each number of words, in tercom's order.

    A sequence is a candidate if it also occurs at another position of the reference, with errors at both positions.
    """
    shifts: list[list[_Shift]] = [[] for _ in range(MAX_SHIFT_WORDS + 1)]
    position = alignment.position
    for start in range(len(words)):
        for end in range(start + 1, min(start + MAX_SHIFT_WORDS, len(words)) + 1):
            indices = occurrences.get(tuple(words[start:end]), [])
            distances = [position[index] - start for index in indices]
            if not any(
                distance and -MAX_SHIFT_DISTANCE - 1 <= distance <= MAX_SHIFT_DISTANCE for distance in distances
            ):
                break
            if not any(alignment.hypothesis_errors[start:end]):
                continue
            other_indices = [
                index
                for index, distance in zip(indices, distances, strict=True)
                if not 0 <= distance < end - start and abs(distance) <= MAX_SHIFT_DISTANCE
            ]
            for index in other_indices:
                if any(alignment.reference_errors[index : index + end - start]):
                    shifts[end - start] += [(start, target) for target in _targets(start, end, index, position)]
            if not other_indices:
                break
    return shifts


def _targets(start: int, end: int, index: int, position: list[int]) -> list[int]:
    """The targets for words[start:end], which equal the reference from `index` on: the words aligned there."""
    targets = [-1] if index == 0 else []
    for offset in range(-1 if index else 0, end - start):
        target = position[index + offset]
        if target != start and (offset == 0 or target != position[index]):
            targets.append(target)
    return targets


def _shift(words: list[str], start: int, end: int, target: int) -> list[str]:
    """Moves words[start:end] behind words[target], or target - start words to the right if start <= target < end."""
    sequence = words[start:end]
    if target < start:
        return words[: target + 1] + sequence + words[target + 1 : start] + words[end:]
    stop = target + 1 if target >= end else end + target - start
    return words[:start] + words[end:stop] + sequence + words[stop:]


def _align(words: list[str], reference: list[str]) -> _Alignment:
    distance, operations = _table(words, reference)
    hypothesis_errors, reference_errors = [True] * len(words), [True] * len(reference)
    position = [0] * len(reference)
    i, j = len(reference), len(words)
    while i or j:
        operation = operations[j][i]
        if operation == _SUBSTITUTE:
            i, j = i - 1, j - 1
            hypothesis_errors[j] = reference_errors[i] = reference[i] != words[j]
            position[i] = j
        elif operation == _INSERT:
            j -= 1
        else:
            i -= 1
            position[i] = j - 1
    return _Alignment(distance, hypothesis_errors, reference_errors, position)


def _table(words: list[str], reference: list[str]) -> tuple[int, list[list[int]]]:
    """The distance, and the last operation for each prefix of the words and of the reference.

    At equal cost, substitution (or match) is preferred to insertion, and insertion to deletion. Cells with more than
    BEAM edits above the best substitution into their column are pruned.
    """
    size = len(reference)
    column = [0] + [_UNREACHED] * size
    operation = [_DELETE] * (size + 1)
    operations = [operation]
    first, last, limit = 0, 0, _UNREACHED - 1
    for word in words:
        following = [_UNREACHED] * (size + 1)
        following_operation = [_SUBSTITUTE] * (size + 1)
        best, following_first, following_last = _UNREACHED, -1, -1
        i = first
        while i <= last and i <= size:
            cost = column[i]
            if cost <= limit:
                if following_first < 0:
                    following_first = i
                if cost + 1 < following[i]:
                    following[i], following_operation[i] = cost + 1, _INSERT
                if i < size:
                    following[i + 1] = substituted = cost + (reference[i] != word)
                    if substituted < best:
                        best = substituted
                    if cost + 1 < column[i + 1]:
                        column[i + 1], operation[i + 1] = cost + 1, _DELETE
                        if last == i:
                            last = i + 1
                following_last = i + 1
            i += 1
        operations.append(following_operation)
        column, operation = following, following_operation
        first, last, limit = max(following_first, 0), following_last, best + BEAM
    for i in range(first, size):  # the last column is not pruned
        if i <= last and column[i] + 1 < column[i + 1]:
            column[i + 1], operation[i + 1] = column[i] + 1, _DELETE
            last = max(last, i + 1)
    return column[size], operations
