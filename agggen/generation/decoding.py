"""The inner loop of the beam search, which decodes a batch of facts word by word.

Shapes as in `agggen.generation.search`; C is the number of candidates for the next word of a hypothesis.
"""

from collections.abc import Callable
from dataclasses import replace

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.generation.config import BeamConfig
from agggen.generation.constraints import Constraint
from agggen.generation.hypotheses import ActiveFacts, Beams, FinishedFacts, PlanPrefix, gather_beams, penalised
from agggen.model.batch import PAD
from agggen.model.coverage import generated_in
from agggen.model.joint import JointModel
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import Cache

Constrain = Callable[[PlanPrefix], Constraint]
PATIENCE = 8  # maximum number of words that the constrained search adds after the unconstrained search would have ended
FALLBACK_WORD_LOG_P = -1.0  # assumed log-probability per word of a fallback, similar to that of generated words
UNFINISHED_LOG_P = -40.0  # added for a fallback after an incomplete sentence, so that other plans are preferred
FAULT_COST = 10.0  # subtracted from a text's score for each fault and fallback; larger than typical score differences
# A constrained hypothesis may only end if the log-probability of the end is above LIKELY_END, its score above that of
# the best finished hypothesis minus SCORE_MARGIN, and the mean log-probability of the fact's words and its end at least
# LOWEST_WORD_LOG_P: less probable texts contain the required values, but are often false.
LIKELY_END = -5.0
SCORE_MARGIN = 2.0
LOWEST_WORD_LOG_P = -0.6


def decode(
    model: JointModel,
    tokens: Tensor,
    position: Tensor,
    cross: list[Cache],
    visible: Tensor,
    caches: list[Cache],
    mask: Tensor,
) -> Tensor:
    """The decoder's outputs (n, T, D) for tokens (n, T) at `position` (n, T), which are appended to the caches and
    attend to the record's tokens where `visible` (n, M) and to cached positions where `mask` (n, T, Q) is True.
    """
    x = model.embed_target(tokens, position, int(position.max()) + 1)
    lowest = max(IMPOSSIBLE, torch.finfo(x.dtype).min)
    cross_bias, self_bias = (
        torch.zeros_like(allowed, dtype=x.dtype).masked_fill_(~allowed, lowest)[:, None]
        for allowed in (visible[:, None], mask)
    )
    return model.decoder(x, [layer.keys_values() for layer in cross], cross_bias, caches, self_bias)


def decode_facts(
    model: JointModel, config: BeamConfig, facts: ActiveFacts, max_active: int, constrain: Constrain | None = None
) -> FinishedFacts:
    """Decodes until at most `max_active` facts are unfinished; moves the finished facts from `facts` to the result.

    A fact is finished (1) when it has K finished hypotheses and no active hypothesis would have a better score if it
    ended next, (2) when no hypothesis can reach `min_log_p`, or (3) at the maximum length.

    With `constrain`, a hypothesis can only end if it is probable enough and passes the constraint. A fact is also
    finished when the unconstrained search would have ended and either no active hypothesis can exceed the score of the
    best finished one or `PATIENCE` words have followed; without a finished hypothesis, it gets the fallback.
    """
    k, max_words = config.beam, config.max_fact_tokens
    batches: list[FinishedFacts] = []
    while len(facts.prefixes) > max_active:
        active, finished = facts.active, facts.finished
        length = facts.start.gather(1, active.parent) + facts.step[:, None] + 1  # includes the fact's mark
        candidates, words, end = _next_words(model, config, facts, length - 1)
        if constrain is not None:
            _complete_partial_values(constrain, facts, candidates, words, end)
        ended = active.log_p + end.masked_fill((facts.step < facts.min_words)[:, None], IMPOSSIBLE)
        ended_score = penalised(ended, length, config.length_penalty)
        if constrain is not None:
            facts.unconstrained = torch.cat((facts.unconstrained, ended_score), 1).topk(k, dim=1).values
            min_score = torch.maximum(facts.score[:, -1:], facts.score[:, :1] - SCORE_MARGIN)
            fact_log_p = ended - facts.text_log_p.gather(1, active.parent)
            probable = (end > LIKELY_END) & (fact_log_p >= LOWEST_WORD_LOG_P * (facts.step[:, None] + 1))
            rejected = ~_passing(constrain, facts, (ended_score > min_score) & probable)
            ended = ended.masked_fill(rejected, IMPOSSIBLE)
            ended_score = ended_score.masked_fill(rejected, IMPOSSIBLE)
        pool = Beams(
            torch.cat((finished.log_p, ended), 1),
            torch.cat((finished.words, active.words), 1),
            torch.cat((finished.parent, active.parent), 1),
        )
        facts.score, best = torch.cat((facts.score, ended_score), 1).topk(k, dim=1)
        facts.finished = pool.select_beams(best)
        top_log_p, index = (active.log_p[..., None] + candidates).flatten(1).topk(k, dim=1)
        origin = index // candidates.shape[2]
        facts.inputs = words.flatten(1).gather(1, index)
        facts.active = active.select_beams(origin)
        facts.active.log_p = top_log_p
        facts.active.words = torch.cat((facts.active.words, facts.inputs[..., None]), 2)
        facts.finished.words = F.pad(facts.finished.words, (1, 0), value=PAD)
        facts.history.attended = gather_beams(facts.history.attended, origin)
        facts.step = facts.step + 1
        best_active = penalised(top_log_p, length.gather(1, origin) + 1, config.length_penalty).amax(1)
        unfinished = facts.score[:, -1] < best_active
        if constrain is not None:
            search_ended = facts.unconstrained[:, -1] >= best_active
            facts.extra_words = facts.extra_words + search_ended
            no_better = search_ended & (facts.score[:, 0] >= best_active)
            unfinished = unfinished & ~no_better & (facts.extra_words < PATIENCE)
        useful = torch.maximum(top_log_p[:, 0], facts.finished.log_p.amax(1)) >= facts.min_log_p
        fact_finished = ~(unfinished & useful & (facts.step <= max_words))
        if bool(fact_finished.any()):
            fallbacks = _add_fallbacks(constrain, facts, fact_finished) if constrain is not None else frozenset()
            batches.append(replace(facts.remove(fact_finished), fallbacks=fallbacks))
    return FinishedFacts.joined(batches)


def _complete_partial_values(
    constrain: Constrain, facts: ActiveFacts, candidates: Tensor, words: Tensor, end: Tensor
) -> None:
    """Makes `candidates` (n, K, C) and ends (n, K) that leave a value incomplete IMPOSSIBLE, in place."""
    for row, (prefix, beams) in enumerate(zip(facts.prefixes, facts.active_words(), strict=True)):
        constraint = constrain(prefix)
        for beam, fact_words in enumerate(beams):
            if next_words := constraint.allowed_next(fact_words):
                allowed = torch.isin(words[row, beam], words.new_tensor(sorted(next_words)))
                candidates[row, beam].masked_fill_(~allowed, IMPOSSIBLE)
                end[row, beam] = IMPOSSIBLE


def _passing(constrain: Constrain, facts: ActiveFacts, candidates: Tensor) -> Tensor:
    """(n, K) True for the hypotheses among `candidates` (n, K) that pass the constraint if their fact ends now."""
    passing = torch.zeros_like(candidates)
    texts: dict[tuple[int, int], list[int]] = {}
    words, parents = facts.active_words(), facts.active.parent.tolist()
    for row, beam in candidates.nonzero().tolist():
        constraint = constrain(facts.prefixes[row])
        if not constraint.has_all_values(words[row][beam]):
            continue
        text = row, parents[row][beam]
        if text not in texts:
            texts[text] = [word for word in facts.text[text].tolist() if word != PAD]
        passing[row, beam] = constraint.judge(words[row][beam], texts[text])
    return passing


def _add_fallbacks(constrain: Constrain, facts: ActiveFacts, fact_finished: Tensor) -> frozenset[PlanPrefix]:
    """Gives each fact with `fact_finished` (n,) but no finished hypothesis its fallback; returns these facts."""
    failed = (fact_finished & (facts.finished.log_p.amax(1) <= IMPOSSIBLE / 2)).nonzero().flatten().tolist()
    for row in failed:
        log_p, order = facts.text_log_p[row].sort(descending=True, stable=True)
        parents = order[: max(int((log_p > IMPOSSIBLE / 2).sum()), 1)].tolist()
        index, fallback = constrain(facts.prefixes[row]).fallback_after(facts.text[row, parents].tolist())
        parent = parents[index or 0]
        extra_width = len(fallback) - facts.finished.words.shape[2]
        if extra_width > 0:
            for beams in (facts.finished, facts.active):
                beams.words = F.pad(beams.words, (extra_width, 0), value=PAD)
        words = facts.finished.words[row, 0].fill_(PAD)
        words[len(words) - len(fallback) :] = facts.inputs.new_tensor(fallback)
        facts.finished.parent[row, 0] = parent
        fallback_log_p = FALLBACK_WORD_LOG_P * len(fallback) + (UNFINISHED_LOG_P if index is None else 0)
        facts.finished.log_p[row, 0] = facts.text_log_p[row, parent] + fallback_log_p
    return frozenset(facts.prefixes[row] for row in failed)


def _next_words(
    model: JointModel, config: BeamConfig, facts: ActiveFacts, position: Tensor
) -> tuple[Tensor, Tensor, Tensor]:
    """The result of `JointModel.next_words` after `facts.inputs` at `position` (n, K), which extend the caches."""
    n, k = position.shape
    new_positions = torch.eye(k, dtype=torch.bool, device=position.device).expand(n, -1, -1)
    history = facts.history
    history.attended = torch.cat((history.attended, new_positions), 2)
    hidden = decode(model, facts.inputs, position, facts.cross, facts.visible, history.caches, history.attended)
    if model.coverage:
        generated = generated_in(facts.memory.ids, facts.active.words)
        hidden = model.coverage(hidden, facts.memory.object_shares * facts.visible, generated)
    blocked = _repeated_words(
        gather_beams(facts.text, facts.active.parent), facts.active.words, config.block_ngrams, facts.repeatable
    )
    forbidden = facts.forbidden if facts.forbidden.shape[1] else None
    return model.next_words(hidden, facts.inputs, facts.memory, facts.visible, blocked, k, forbidden)


def _repeated_words(text: Tensor, words: Tensor, size: int, repeatable: Tensor) -> Tensor:
    """(n, K, windows) ids of the next words that would repeat an n-gram of `size` words, or PAD. N-grams of earlier
    facts (`text`) with a word of `repeatable` (n, ids) are allowed.
    """
    n_words = words.shape[-1]
    if not size or n_words < size - 1:
        return words[..., :0]
    # (n, K, windows, size). Windows with marks or PAD equal no suffix, since a suffix contains only words of one fact.
    all_words = torch.cat((text, words), 2)
    windows = all_words.unfold(2, size, 1)
    suffix = words[..., n_words - size + 1 :]
    repeated = (windows[..., :-1] == suffix[:, :, None]).all(-1) & (suffix != PAD).all(-1, keepdim=True)
    allowed = repeatable.gather(1, all_words.flatten(1)).view_as(all_words).unfold(2, size, 1).any(-1)
    allowed[..., text.shape[2] :] = False
    return torch.where(repeated & ~allowed, windows[..., -1], PAD)
