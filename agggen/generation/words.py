"""One fact of n plans, word by word: the inner loop of the beam search, over positions in caches.

Shapes as in `agggen.generation.search`.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

from agggen.generation.config import BeamConfig
from agggen.generation.hypotheses import Beams, Open, along, penalised
from agggen.model.batch import PAD
from agggen.model.joint import JointModel
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache

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
    model: JointModel,
    config: BeamConfig,
    rows: Open,
    log_p: Tensor,
    marks: Tensor,
    floor: Tensor,
    least: Tensor,
    missing: Callable[[int, Sequence[int]], int] | None = None,
) -> Beams:
    """The K best finished versions of a fact for each of n plans.

    With `missing`, a version's score is less by `A_VALUE` for each value that it does not mention, so that the search
    goes on for others, up to `PATIENCE` words; and those that mention fewer than the best are left out.

    Args:
        model: in evaluation mode.
        config: the search's settings.
        rows: of all n plans; those whose fact is settled are dropped from it.
        log_p: (n, K), of the texts that the fact goes on with.
        marks: (n,), with which the fact begins.
        floor: (n,), the fewest words.
        least: (n,), the log-probability that a version must have; where none can have it, some may not be found.
        missing: how many values a version does not mention, by its plan's row and its words; asked about versions
            that may be among the best.
    """
    n, k, most = len(marks), config.beam, config.max_fact_tokens
    live = Beams.of(log_p, 0)
    done = Beams.of(torch.full_like(log_p, IMPOSSIBLE), most)
    done_score = done.log_p.clone()
    waited = torch.zeros_like(marks)  # words since the fact would have ended if nothing had to be mentioned
    inputs = marks[:, None].expand(n, k)
    plans = torch.arange(n, device=marks.device)  # those that are not settled; the others' rows are dropped
    for step in range(most + 1):
        start = rows.start.gather(1, live.parent)
        candidates, words, end = _next_words(model, config, rows, inputs, start + step, live)
        ended = live.log_p + end.masked_fill(step < floor[plans, None], IMPOSSIBLE)
        ended_score = penalised(ended, start + step + 1, config.length_penalty)
        if missing is not None:
            live.missing = _count(missing, plans, live, ended_score > done_score[plans, -1:])
            ended_score = ended_score - A_VALUE * live.missing
        before = done.plans(plans)
        pool = Beams(
            torch.cat((before.log_p, ended), 1),
            torch.cat((before.words[..., :step], live.words), 1),
            torch.cat((before.parent, live.parent), 1),
            torch.cat((before.missing, live.missing), 1),
        )
        score, best = torch.cat((done_score[plans], ended_score), 1).topk(k, dim=1)
        done.put(plans, pool.beams(best))
        done_score[plans] = score
        if step == most:
            break
        top, index = (live.log_p[..., None] + candidates).flatten(1).topk(k, dim=1)
        origin = index // candidates.shape[2]
        live = live.beams(origin)
        inputs = words.flatten(1).gather(1, index)
        live.log_p, live.words = top, torch.cat((live.words, inputs[..., None]), 2)
        hope = penalised(top, start.gather(1, origin) + step + 2, config.length_penalty).amax(1)
        rows.seen = along(rows.seen, origin)
        likely = torch.maximum(top[:, 0], done.log_p[plans].amax(1)) >= least[plans]
        open_ = score[:, -1] < hope
        if missing is not None:
            waited[plans] += (score + A_VALUE * done.missing[plans]).amax(1) >= hope
            open_ = (score[:, 0] < hope) & (waited[plans] < PATIENCE)
        searching = (open_ & likely).nonzero().flatten()
        if not len(searching):
            break
        if len(searching) < len(plans):
            order = rows.stay(searching)
            live, inputs, plans = live.plans(order), inputs[order], plans[order]
    if missing is not None:
        done.log_p.masked_fill_(done.missing > done.missing[:, :1], IMPOSSIBLE)
    return done


def _count(missing: Callable[[int, Sequence[int]], int], plans: Tensor, live: Beams, wanted: Tensor) -> Tensor:
    """How much the words of `live` do not mention of their `plans` (n,), where that is `wanted` (n, K); else 0."""
    which = [wanted.tolist(), live.words.tolist()]
    found = [
        [missing(plan, words) if asked else 0 for asked, words in zip(*of_plan, strict=True)]
        for plan, *of_plan in zip(plans.tolist(), *which, strict=True)
    ]
    return torch.tensor(found, dtype=live.log_p.dtype, device=live.log_p.device)


def _next_words(
    model: JointModel, config: BeamConfig, rows: Open, inputs: Tensor, position: Tensor, live: Beams
) -> tuple[Tensor, Tensor, Tensor]:
    """What may come after `inputs` (n, K), which join the caches; as `JointModel.next_words` gives it."""
    n, k = inputs.shape
    itself = torch.eye(k, dtype=torch.bool, device=inputs.device).expand(n, -1, -1)
    rows.seen = torch.cat((rows.seen, itself), 2)
    hidden = decode(model, inputs, position, rows.cross, rows.visible, rows.past, rows.seen)
    blocked = _repeating(along(rows.text, live.parent), live.words, config.block_ngrams)
    return model.next_words(hidden, rows.memory, rows.visible, blocked, k)


def _repeating(text: Tensor, words: Tensor, size: int) -> Tensor:
    """The words (n, K, any), and PAD, that would complete an n-gram which the text already holds within a fact."""
    step = words.shape[-1]
    if not size or step < size - 1:
        return words[..., :0]
    # (n, K, windows, size); a window across two facts holds a mark there, so it never matches words of one fact
    windows = torch.cat((text, words), 2).unfold(2, size, 1)
    suffix = words[..., step - size + 1 :]
    repeated = (windows[..., :-1] == suffix[:, :, None]).all(-1)
    return torch.where(repeated, windows[..., -1], PAD)
