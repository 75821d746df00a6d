"""Facts of many plans, word by word: the inner loop of the beam search, over positions in caches.

Shapes as in `agggen.generation.search`; W is the number of words of the longest open fact.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import Beams, Open, Written, along, penalised
from agggen.model.batch import PAD
from agggen.model.joint import JointModel
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache

Missing = Callable[[int, frozenset[int], Sequence[int]], int]
"""How many of these triples of a record, by its row in the memory, a fact of these words does not mention."""

A_VALUE = 10.0  # what a value that is not mentioned costs, in the score of a finished fact
PATIENCE = 32  # words after which no version is looked for any more that mentions what the best does not


def decode(
    model: JointModel,
    tokens: Tensor,
    position: Tensor,
    cross: list[Cache],
    visible: Tensor,
    past: list[Cache],
    mask: Tensor,
) -> Tensor:
    """Runs the decoder over tokens (n, any), which join `past`, each with its `mask` (n, any, Q): (n, any, D)."""
    x = model.embed_target(tokens, position)
    lowest = max(IMPOSSIBLE, torch.finfo(x.dtype).min)
    added = [torch.zeros_like(each, dtype=x.dtype).masked_fill_(~each, lowest) for each in (visible[:, None], mask)]
    hidden, _ = model.decoder(x, [layer.keys_values() for layer in cross], added[0][:, None], past, added[1][:, None])
    return hidden


def write_words(
    model: JointModel, config: BeamConfig, rows: Open, until: int, missing: Missing | None = None
) -> Written:
    """Writes on until at most so many facts are open; gives the others, which leave `rows`.

    A fact is settled when K versions of it are finished and no open one would score better if it ended next; or when
    it is certain that no version of the log-probability that it needs would be found: then some may be missing.

    With `missing`, a version's score is less by `A_VALUE` for each value that it does not mention, so that the search
    goes on for others, up to `PATIENCE` words; and those that mention fewer than the best are left out.

    Args:
        model: in evaluation mode.
        config: the search's settings.
        rows: what is open; changed in place.
        until: how many; less than there are.
        missing: asked about versions that may be among the best.
    """
    k, most = config.beam, config.max_fact_tokens
    written: list[Written] = []
    while len(rows.nodes) > until:
        live, done = rows.live, rows.done
        length = rows.start.gather(1, live.parent) + rows.step[:, None] + 1  # with the fact's mark
        candidates, words, end = _next_words(model, config, rows, length - 1)
        ended = live.log_p + end.masked_fill((rows.step < rows.floor)[:, None], IMPOSSIBLE)
        ended_score = penalised(ended, length, config.length_penalty)
        if missing is not None:
            live.missing = _count(missing, rows, ended_score > rows.score[:, -1:])
            ended_score = ended_score - A_VALUE * live.missing
        pool = Beams(
            torch.cat((done.log_p, ended), 1),
            torch.cat((done.words, live.words), 1),
            torch.cat((done.parent, live.parent), 1),
            torch.cat((done.missing, live.missing), 1),
        )
        rows.score, best = torch.cat((rows.score, ended_score), 1).topk(k, dim=1)
        rows.done = pool.beams(best)
        top, index = (live.log_p[..., None] + candidates).flatten(1).topk(k, dim=1)
        origin = index // candidates.shape[2]
        rows.inputs = words.flatten(1).gather(1, index)
        rows.live = live.beams(origin)
        rows.live.log_p = top
        rows.live.words = torch.cat((rows.live.words, rows.inputs[..., None]), 2)
        rows.done.words = F.pad(rows.done.words, (1, 0), value=PAD)
        rows.past.seen = along(rows.past.seen, origin)
        rows.step = rows.step + 1
        hope = penalised(top, length.gather(1, origin) + 1, config.length_penalty).amax(1)
        open_ = rows.score[:, -1] < hope
        if missing is not None:
            rows.waited = rows.waited + ((rows.score + A_VALUE * rows.done.missing).amax(1) >= hope)
            open_ = (rows.score[:, 0] < hope) & (rows.waited < PATIENCE)
        likely = torch.maximum(top[:, 0], rows.done.log_p.amax(1)) >= rows.least
        going_on = open_ & likely & (rows.step <= most)
        if not bool(going_on.all()):
            written.append(rows.leave(going_on))
    settled = Written.joined(written)
    if missing is not None:
        settled.beams.log_p.masked_fill_(settled.beams.missing > settled.beams.missing[:, :1], IMPOSSIBLE)
    return settled


def _count(missing: Missing, rows: Open, wanted: Tensor) -> Tensor:
    """How much the words of the open facts do not mention, where that is `wanted` (n, K); else 0."""
    values = [wanted.tolist(), rows.live.words.tolist()]
    found = [
        [
            missing(node.record, node.groups[-1], words[len(words) - step :]) if asked else 0
            for asked, words in zip(*of_row, strict=True)
        ]
        for node, step, *of_row in zip(rows.nodes, rows.step.tolist(), *values, strict=True)
    ]
    return torch.tensor(found, dtype=rows.live.log_p.dtype, device=wanted.device)


def _next_words(model: JointModel, config: BeamConfig, rows: Open, position: Tensor) -> tuple[Tensor, Tensor, Tensor]:
    """What may come after the last words, at `position` (n, K), which join the caches: as `JointModel.next_words`."""
    n, k = position.shape
    itself = torch.eye(k, dtype=torch.bool, device=position.device).expand(n, -1, -1)
    past = rows.past
    past.seen = torch.cat((past.seen, itself), 2)
    hidden = decode(model, rows.inputs, position, rows.cross, rows.visible, past.caches, past.seen)
    blocked = _repeating(along(rows.text, rows.live.parent), rows.live.words, config.block_ngrams)
    return model.next_words(hidden, rows.memory, rows.visible, blocked, k)


def _repeating(text: Tensor, words: Tensor, size: int) -> Tensor:
    """The words (n, K, any), and PAD, that would complete an n-gram which the text already holds within a fact."""
    w = words.shape[-1]
    if not size or w < size - 1:
        return words[..., :0]
    # (n, K, windows, size); a window across two facts holds a mark, and one across a hole PAD: neither is in a suffix
    windows = torch.cat((text, words), 2).unfold(2, size, 1)
    suffix = words[..., w - size + 1 :]
    repeated = (windows[..., :-1] == suffix[:, :, None]).all(-1) & (suffix != PAD).all(-1, keepdim=True)
    return torch.where(repeated, windows[..., -1], PAD)
