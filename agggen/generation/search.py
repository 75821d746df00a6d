"""Beam search under plans, batched over records, plans and beams, with key-value caches (METHOD 3 and 6).

The search is synchronous by facts: all hypotheses of a plan finish fact t before any begins fact t + 1. Fact t is
written under the mask of its state's triples. When it is done, it is read once more under the mask of all triples and
joins the shared history, exactly as training saw it (`history="shared"`); with `history="masked"` the whole text so
far is read again under the next state's mask.

Three things make it fast, none of which changes a result. Plans that begin with the same sets of triples share the
search of these facts (an emission depends on the set alone). The K hypotheses of a plan are K queries to one copy of
the encoded record. And caches are never reordered: all positions that any hypothesis of a plan ever read lie side by
side, and a mask says which of them each hypothesis may see.

Shapes: n plans (or beginnings of plans), K beams, Q cached positions, P marks and words of earlier facts with holes;
the rest as in `agggen.model`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import torch
from torch import Tensor
from torch.nn import functional as F

from agggen.errors import ConfigError
from agggen.generation.hypotheses import Beams, Beginning, Hypothesis, Open, Texts, along, penalised
from agggen.model.batch import END, FACT, LAST, PAD
from agggen.model.joint import JointModel, Memory
from agggen.model.lattice import IMPOSSIBLE
from agggen.model.transformer import KeysValues, full_precision


@dataclass(frozen=True)
class BeamConfig:
    """Defaults are the original's search (METHOD 6) but for the minimum length, which is a corpus's own.

    Raises:
        ConfigError: a number out of range.
    """

    beam: int = 5
    length_penalty: float = 0.9  # Wu et al. 2016: log p / ((5 + n) / 6)^penalty
    min_tokens_per_triple: int = 0  # a fact is no shorter than this times the triples in its group, and never empty
    max_fact_tokens: int = 120  # and never longer than this, which also bounds the minimum
    block_ngrams: int = 3  # no n-gram of this size twice in the facts of a text; 0 allows all
    whole_values: bool = False  # the words of a subject or object, once begun, follow each other to its end

    def __post_init__(self) -> None:
        for name, least in (("beam", 1), ("max_fact_tokens", 1), ("min_tokens_per_triple", 0), ("block_ngrams", 0)):
            if getattr(self, name) < least:
                raise ConfigError(f"{name} must be at least {least}, not {getattr(self, name)}")


@dataclass(frozen=True)
class Task:
    """One text to write: `record` is an index into the memory, `groups` the triple indices of each fact."""

    record: int
    groups: tuple[tuple[int, ...], ...]


@torch.no_grad()
def beam_search(model: JointModel, memory: Memory, tasks: Sequence[Task], config: BeamConfig) -> list[list[Hypothesis]]:
    """The best texts of each task, best first; at least one, at most `config.beam`.

    A fact is settled when K versions of it are finished and no open one would score better if it ended next. Where
    nothing can be finished (its ends have no probability), the text is empty at a log-probability of IMPOSSIBLE.

    Args:
        model: in evaluation mode.
        memory: the encoded records that the tasks index.
        tasks: at least one.
        config: the search's settings.
    """
    search = _Search(model, memory, config)
    plans = [Beginning(task.record, tuple(map(frozenset, task.groups))) for task in tasks]
    records = sorted({plan.record for plan in plans})
    texts = search.nothing(records)
    row_of = {Beginning(record, (), last=False): row for row, record in enumerate(records)}
    found: dict[Beginning, list[Hypothesis]] = {}
    for fact in range(max(len(plan.groups) for plan in plans)):
        nodes = list(dict.fromkeys(plan.until(fact + 1) for plan in plans if fact < len(plan.groups)))
        texts = search.write_fact(texts.pick([row_of[node.until(fact)] for node in nodes]), nodes)
        found |= {node: texts.hypotheses(row, config.length_penalty) for row, node in enumerate(nodes) if node.last}
        open_nodes = [row for row, node in enumerate(nodes) if not node.last]
        row_of = {nodes[row]: new for new, row in enumerate(open_nodes)}
        texts = search.remember(texts.pick(open_nodes), [nodes[row].record for row in open_nodes])
    return [list(found[plan]) for plan in plans]


class _Search:
    """The steps of the search; all state is in what they pass to each other."""

    def __init__(self, model: JointModel, memory: Memory, config: BeamConfig) -> None:
        self.model, self.memory, self.config = model, memory, config
        self.device = memory.ids.device
        self.n_ids = max(int(memory.ids.max()) + 1, model.n_words)

    def nothing(self, records: list[int]) -> Texts:
        """The one empty text of each record."""
        n, k = len(records), self.config.beam
        log_p = full_precision(self.memory.copy_keys.new_full((n, k), IMPOSSIBLE))
        log_p[:, 0] = 0.0
        text = torch.zeros(n, k, 0, dtype=torch.long, device=self.device)
        history = [(key[:n, :, :0], value[:n, :, :0]) for key, value in self.memory.cross]
        return Texts(log_p, text, text.sum(2), text, history, text.bool())

    def write_fact(self, texts: Texts, nodes: Sequence[Beginning]) -> Texts:
        """Extends each row of `texts` by the last group of its node; the history is left as it was."""
        groups = [node.groups[-1] for node in nodes]
        marks = torch.tensor([LAST if node.last else FACT for node in nodes], device=self.device)
        members = torch.zeros(len(nodes), int(self.memory.triple.max()) + 1, dtype=torch.bool, device=self.device)
        for row, group in enumerate(groups):
            members[row, list(group)] = True
        memory = self.memory.rows(torch.tensor([node.record for node in nodes], device=self.device))
        visible = memory.tokens_of(members)
        past, seen = texts.history, texts.seen
        if self.model.config.history == "masked":
            position = ((texts.text != PAD).cumsum(2) - 1).clamp(min=0)
            past, seen = self._read(texts.text, position, memory, visible, past, seen)
        most = self.config.max_fact_tokens
        # At least one word: no fact of the training texts is empty, so nothing is learned about when one would be.
        floor = [min(max(len(group) * self.config.min_tokens_per_triple, 1), most) for group in groups]
        opening = marks[:, None, None].expand(-1, self.config.beam, 1)
        rows = Open(memory, visible, torch.cat((texts.text, opening), 2), texts.length, past, seen)
        done = self._search(rows, texts.log_p, marks, torch.tensor(floor, device=self.device))
        longest = int((done.words != PAD).sum(-1).max())
        added = torch.cat((opening, done.words[..., :longest]), 2)
        return Texts(
            done.log_p,
            torch.cat((along(texts.text, done.parent), added), 2),
            texts.length.gather(1, done.parent) + (added != PAD).sum(2),
            added,
            texts.history,
            along(texts.seen, done.parent),
        )

    def remember(self, texts: Texts, records: list[int]) -> Texts:
        """Reads the last fact under the mask of all triples, as the shared history of training does."""
        if self.model.config.history == "masked" or not records:
            return texts
        memory = self.memory.rows(torch.tensor(records, device=self.device))
        first = texts.length - (texts.last != PAD).sum(2)
        position = first[..., None] + torch.arange(texts.last.shape[2], device=self.device)
        history, seen = self._read(texts.last, position, memory, memory.triples(), texts.history, texts.seen)
        return replace(texts, history=history, seen=seen)

    def _read(
        self, tokens: Tensor, position: Tensor, memory: Memory, visible: Tensor, past: list[KeysValues], seen: Tensor
    ) -> tuple[list[KeysValues], Tensor]:
        """Appends `tokens` (n, K, length), with PAD in holes, to the caches; and to what each hypothesis has seen."""
        k, length = tokens.shape[1:]
        if not length:
            return past, seen
        own = torch.eye(k, dtype=torch.bool, device=self.device).repeat_interleave(length, 1)  # (K, K * length)
        own = own & (tokens != PAD).flatten(1)[:, None]  # (n, K, K * length)
        earlier = torch.ones(length, length, dtype=torch.bool, device=self.device).tril().repeat(k, k)
        itself = torch.eye(k * length, dtype=torch.bool, device=self.device)  # a hole sees itself, lest it see nothing
        mask = torch.cat((seen.repeat_interleave(length, 1), own.repeat_interleave(length, 1) & earlier | itself), 2)
        x = self.model.embed_target(tokens.flatten(1), position.flatten(1))
        _, past = self.model.decoder(x, memory.cross, visible[:, None, None], past, mask[:, None])
        return past, torch.cat((seen, own), 2)

    def _search(self, rows: Open, log_p: Tensor, marks: Tensor, floor: Tensor) -> Beams:
        """The K best finished versions of a fact for each of n plans."""
        n, k, most = len(marks), self.config.beam, self.config.max_fact_tokens
        words = torch.full((n, k, most), PAD, device=self.device)
        live = Beams(log_p, words, torch.arange(k, device=self.device).expand(n, k))
        done = Beams(torch.full_like(log_p, IMPOSSIBLE), words.clone(), live.parent.clone())
        done_score = done.log_p.clone()
        inputs = marks[:, None].expand(n, k)
        plans = torch.arange(n, device=self.device)  # those that are not settled; the others' rows are dropped
        for step in range(most + 1):
            start = rows.start.gather(1, live.parent)
            log_probs = self._step(rows, inputs, start + step)
            self._block(log_probs, along(rows.text, live.parent), live.words[..., :step])
            if self.config.whole_values and step:
                log_probs = self._go_on(log_probs, rows, live.words[..., :step])
            ended = live.log_p + log_probs[..., END].masked_fill(step < floor[plans, None], IMPOSSIBLE)
            before = done.plans(plans)
            pool = Beams(
                torch.cat((before.log_p, ended), 1),
                torch.cat((before.words, live.words), 1),
                torch.cat((before.parent, live.parent), 1),
            )
            ended_score = penalised(ended, start + step + 1, self.config.length_penalty)
            score, best = torch.cat((done_score[plans], ended_score), 1).topk(k, dim=1)
            done.put(plans, pool.beams(best))
            done_score[plans] = score
            if step == most:
                break
            log_probs[..., END] = IMPOSSIBLE
            width = min(k, self.n_ids)
            top, word = log_probs.topk(width, dim=2)  # first within each hypothesis: the vocabulary is large, K is not
            top, index = (live.log_p[..., None] + top).flatten(1).topk(k, dim=1)
            origin = index // width
            live = live.beams(origin)
            live.log_p, inputs = top, word.flatten(1).gather(1, index)
            live.words[..., step] = inputs
            hope = penalised(top, start.gather(1, origin) + step + 2, self.config.length_penalty).amax(1)
            rows.seen = along(rows.seen, origin)
            searching = (score[:, -1] < hope).nonzero().flatten()
            if not len(searching):
                break
            if len(searching) < len(plans):
                rows, live = rows.pick(searching), live.plans(searching)
                inputs, plans = inputs[searching], plans[searching]
        return done

    def _step(self, rows: Open, inputs: Tensor, position: Tensor) -> Tensor:
        """log p of every id as the next word after `inputs` (n, K), which join the caches: (n, K, ids)."""
        n, k = inputs.shape
        x = self.model.embed_target(inputs, position)
        rows.seen = torch.cat((rows.seen, torch.eye(k, dtype=torch.bool, device=self.device).expand(n, -1, -1)), 2)
        hidden, rows.past = self.model.decoder(
            x, rows.memory.cross, rows.visible[:, None, None], rows.past, rows.seen[:, None]
        )
        return self.model.next_log_probs(hidden, rows.memory, rows.visible, self.n_ids)

    def _block(self, log_probs: Tensor, text: Tensor, words: Tensor) -> None:
        """Forbids (in place) any word that would complete an n-gram which the text already holds within a fact."""
        size, step = self.config.block_ngrams, words.shape[-1]
        if not size or step < size - 1:
            return
        # (n, K, windows, size); a window across two facts holds a mark there, so it never matches words of one fact
        windows = torch.cat((text, words), 2).unfold(2, size, 1)
        suffix = words[..., step - size + 1 :]
        repeated = (windows[..., :-1] == suffix[:, :, None]).all(-1)
        log_probs.scatter_(2, torch.where(repeated, windows[..., -1], PAD), IMPOSSIBLE)

    def _go_on(self, log_probs: Tensor, rows: Open, words: Tensor) -> Tensor:
        """Allows nothing but the next word of a value where `words` (n, K, step) end within one that they began."""
        ids, following = rows.memory.ids, rows.memory.following
        begins = F.pad(following[:, :-1] == PAD, (1, 0), value=True)  # (n, M)
        same = rows.visible[:, None] & (following != PAD)[:, None] & (ids[:, None] == words[..., -1:])  # (n, K, M)
        if words.shape[-1] > 1:
            before = F.pad(ids[:, :-1], (1, 0), value=PAD)
            begins = begins[:, None] | (before[:, None] == words[..., -2:-1])
        else:
            begins = begins[:, None].expand_as(same)
        within = same & begins
        word = torch.where(within, following[:, None], PAD)
        only = torch.full_like(log_probs, IMPOSSIBLE)
        only.scatter_(2, word, log_probs.gather(2, word).masked_fill(~within, IMPOSSIBLE))
        return torch.where(within.any(-1, keepdim=True), only, log_probs)
