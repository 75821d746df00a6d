"""The inner loop of the beam search: facts of many plans, word by word.

Shapes as in `agggen.generation.search`; W is the number of words of the longest active fact.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.hypotheses import ActiveFacts, Beams, FinishedFacts, PlanPrefix, along, penalised
from agggen.model.batch import PAD
from agggen.model.joint import JointModel
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache

Constrain = Callable[[PlanPrefix], Constraint]
PATIENCE = 24
"""Words for which the search for a hypothesis that passes its constraint continues after the unconstrained search would
have ended."""
FALLBACK_WORD_LOG_P = -1.0
"""Log-probability per word of a fallback: similar to that of other words, so that scores stay comparable."""
LIKELY_END = -5.0
"""Ends with a lower log-probability are not checked."""
SCORE_MARGIN = 2.0
"""Hypotheses whose score is more than this below the best finished one are not checked."""


def decode(
    model: JointModel,
    tokens: Tensor,
    position: Tensor,
    cross: list[Cache],
    visible: Tensor,
    past: list[Cache],
    mask: Tensor,
) -> Tensor:
    """Decodes tokens (n, any) with `mask` (n, any, Q) over the cached positions, which they join: (n, any, D)."""
    x = model.embed_target(tokens, position, int(position.max()) + 1)
    lowest = max(IMPOSSIBLE, torch.finfo(x.dtype).min)
    cross_bias, self_bias = (
        torch.zeros_like(allowed, dtype=x.dtype).masked_fill_(~allowed, lowest)[:, None]
        for allowed in (visible[:, None], mask)
    )
    hidden, _ = model.decoder(x, [layer.keys_values() for layer in cross], cross_bias, past, self_bias)
    return hidden


def write_words(
    model: JointModel, config: BeamConfig, rows: ActiveFacts, until: int, constrain: Constrain | None = None
) -> FinishedFacts:
    """Decodes until at most `until` facts are active; removes the finished ones from `rows` and returns them.

    A fact is finished when K hypotheses have ended and no active one would have a better score if it ended next; or
    when no hypothesis can reach the log-probability that the fact needs (then fewer than K may have ended).

    With `constrain`, a hypothesis can only end if it passes the fact's constraint. If fewer than K have ended, the fact
    is finished when the unconstrained search would be and no active hypothesis can overtake the best one, but at most
    `PATIENCE` words later. If none has ended, the fallback is the only hypothesis.

    Args:
        model: in evaluation mode.
        config: the search's settings.
        rows: the active facts; changed in place.
        until: less than the number of active facts.
        constrain: returns the constraint of a fact.
    """
    k, max_words = config.beam, config.max_fact_tokens
    written: list[FinishedFacts] = []
    while len(rows.nodes) > until:
        live, done = rows.live, rows.done
        length = rows.start.gather(1, live.parent) + rows.step[:, None] + 1  # with the fact's mark
        candidates, words, end = _next_words(model, config, rows, length - 1)
        if constrain is not None:
            _force_begun_values(constrain, rows, candidates, words, end)
        ended = live.log_p + end.masked_fill((rows.step < rows.floor)[:, None], IMPOSSIBLE)
        ended_score = penalised(ended, length, config.length_penalty)
        if constrain is not None:
            rows.free = torch.cat((rows.free, ended_score), 1).topk(k, dim=1).values
            min_score = torch.maximum(rows.score[:, -1:], rows.score[:, :1] - SCORE_MARGIN)
            refused = ~_passed(constrain, rows, (ended_score > min_score) & (end > LIKELY_END))
            ended = ended.masked_fill(refused, IMPOSSIBLE)
            ended_score = ended_score.masked_fill(refused, IMPOSSIBLE)
        pool = Beams(
            torch.cat((done.log_p, ended), 1),
            torch.cat((done.words, live.words), 1),
            torch.cat((done.parent, live.parent), 1),
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
        unfinished = rows.score[:, -1] < hope
        if constrain is not None:
            _advance(constrain, rows, origin)
            free = rows.free[:, -1] >= hope
            rows.waited = rows.waited + free
            unfinished = unfinished & ~(free & (rows.score[:, 0] >= hope)) & (rows.waited < PATIENCE)
        likely = torch.maximum(top[:, 0], rows.done.log_p.amax(1)) >= rows.least
        going_on = unfinished & likely & (rows.step <= max_words)
        if not bool(going_on.all()):
            if constrain is not None:
                _fall_back(constrain, rows, going_on)
            written.append(rows.leave(going_on))
    return FinishedFacts.joined(written)


def _force_begun_values(
    constrain: Constrain, rows: ActiveFacts, candidates: Tensor, words: Tensor, end: Tensor
) -> None:
    """Restricts hypotheses within a value to the value's next words; `candidates` (n, K, any) are scores of `words`."""
    for row, node in enumerate(rows.nodes):
        constraint = constrain(node)
        for beam, state in enumerate(rows.states[node]):
            if following := constraint.following(state):
                allowed = torch.isin(words[row, beam], words.new_tensor(sorted(following)))
                candidates[row, beam].masked_fill_(~allowed, IMPOSSIBLE)
                end[row, beam] = IMPOSSIBLE


def _passed(constrain: Constrain, rows: ActiveFacts, candidates: Tensor) -> Tensor:
    """(n, K): which of the `candidates` (n, K), hypotheses that would end now, pass the constraint of their fact."""
    passed = torch.zeros_like(candidates)
    texts: dict[int, list[list[int]]] = {}
    for row, beam in candidates.nonzero().tolist():
        node = rows.nodes[row]
        constraint = constrain(node)
        if not constraint.said(rows.states[node][beam]):
            continue
        if row not in texts:
            texts[row] = rows.text[row].tolist()
        step, parent = int(rows.step[row]), int(rows.live.parent[row, beam])
        fact_words = rows.live.words[row, beam, rows.live.words.shape[2] - step :].tolist()
        passed[row, beam] = constraint.judge(fact_words, [word for word in texts[row][parent] if word != PAD])
    return passed


def _advance(constrain: Constrain, rows: ActiveFacts, origin: Tensor) -> None:
    """Advances the automata by the last word of each hypothesis."""
    words = rows.inputs.tolist()
    for row, (node, origins) in enumerate(zip(rows.nodes, origin.tolist(), strict=True)):
        constraint, before = constrain(node), rows.states[node]
        rows.states[node] = [
            constraint.step(before[beam], word) for beam, word in zip(origins, words[row], strict=True)
        ]


def _fall_back(constrain: Constrain, rows: ActiveFacts, staying: Tensor) -> None:
    """Sets the fallback as the only hypothesis of finished facts without one."""
    failed = (~staying & (rows.done.log_p.amax(1) <= IMPOSSIBLE / 2)).nonzero().flatten().tolist()
    for row in failed:
        parent = int(rows.base[row].argmax())
        fallback = constrain(rows.nodes[row]).instead(rows.text[row, parent].tolist())
        wider = len(fallback) - rows.done.words.shape[2]
        if wider > 0:
            for beams in (rows.done, rows.live):
                beams.words = F.pad(beams.words, (wider, 0), value=PAD)
        rows.done.words[row, 0] = PAD
        rows.done.words[row, 0, rows.done.words.shape[2] - len(fallback) :] = rows.inputs.new_tensor(fallback)
        rows.done.parent[row, 0] = parent
        rows.done.log_p[row, 0] = rows.base[row, parent] + FALLBACK_WORD_LOG_P * len(fallback)


def _next_words(
    model: JointModel, config: BeamConfig, rows: ActiveFacts, position: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """`JointModel.next_words` after the last words, at `position` (n, K), which are added to the caches."""
    n, k = position.shape
    itself = torch.eye(k, dtype=torch.bool, device=position.device).expand(n, -1, -1)
    past = rows.past
    past.seen = torch.cat((past.seen, itself), 2)
    hidden = decode(model, rows.inputs, position, rows.cross, rows.visible, past.caches, past.seen)
    blocked = _repeating(along(rows.text, rows.live.parent), rows.live.words, config.block_ngrams, rows.names)
    barred = rows.barred if rows.barred.shape[1] else None
    return model.next_words(hidden, rows.memory, rows.visible, blocked, k, barred)


def _repeating(text: Tensor, words: Tensor, size: int, names: Tensor) -> Tensor:
    """(n, K, any): words (or PAD) that would repeat an n-gram of the text within a fact.

    N-grams of earlier facts with one of the `names` (n, ids) may be repeated, since facts may share values.
    """
    w = words.shape[-1]
    if not size or w < size - 1:
        return words[..., :0]
    # (n, K, windows, size); windows across facts contain a mark, those across holes PAD: neither is in a suffix
    all_words = torch.cat((text, words), 2)
    windows = all_words.unfold(2, size, 1)
    suffix = words[..., w - size + 1 :]
    repeated = (windows[..., :-1] == suffix[:, :, None]).all(-1) & (suffix != PAD).all(-1, keepdim=True)
    named = names.gather(1, all_words.flatten(1)).view_as(all_words).unfold(2, size, 1).any(-1)
    named[..., text.shape[2] :] = False
    return torch.where(repeated & ~named, windows[..., -1], PAD)
