"""Replay: old texts that are mixed into the texts of a new domain, against catastrophic forgetting.

Each epoch has all new texts and different old texts. With the same few old texts in all epochs, a model overfits them
and forgets the rest.
"""

_MIN_PER_EPOCH = 200  # training texts; with fewer, a model forgets more


def replayed_per_epoch(n_new: int, share: float) -> int:
    """The number of old texts in an epoch: the fraction `share` of all texts, at least 200, but 0 if `share` is 0."""
    return max(round(n_new * share / (1 - share)), _MIN_PER_EPOCH) if share else 0


def epoch_examples(n_examples: int, n_replayed: int, share: float, epoch: int) -> list[int]:
    """The indices of an epoch's examples: all new ones and, of the last `n_replayed` (old texts), the next
    `replayed_per_epoch`, starting again from the first after the last; at most all.
    """
    n_new = n_examples - n_replayed
    n_old = replayed_per_epoch(n_new, share)
    old = (n_new + (epoch * n_old + number) % n_replayed for number in range(min(n_old, n_replayed)))
    return [*range(n_new), *old]
