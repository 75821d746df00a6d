"""The joint model: p(y, z | x) = transitions over plans times emissions of facts (paper section 3).

The decoder generates fact t with cross-attention to the triples of z_t and self-attention to all earlier tokens. Each
distinct *set* of triples is scored once per fact, in one batched pass over rows (fact, set).

The history y_1..t-1 is encoded once for all sets, with cross-attention to all triples (`shared`), or again for each
set, with cross-attention to the set's triples only (`masked`), as in the authors' code.

The plain Transformer (the paper's baseline) is the same network with the whole text as a single fact.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal, NamedTuple

import torch
from torch import Tensor, nn
from torch.nn import functional as F
from torch.utils.checkpoint import checkpoint

from agggen.errors import ConfigError, check_below_one, check_minima
from agggen.model.batch import END, PAD, UNK, Batch, alignment_violations, allowed_sets, omitted_sets, to_device
from agggen.model.coverage import Coverage, generated_before, object_shares
from agggen.model.hmm import Potentials, log_likelihood
from agggen.model.lattice import IMPOSSIBLE, Lattice, build_lattice
from agggen.model.transformer import Decoder, EncoderLayer, KeysValues, sinusoids
from agggen.model.transitions import Transitions, TransitionScores, Variant, full_precision
from agggen.text.linearise import ROLE_OBJECT

_MAX_POSITIONS = 4096  # padded positions per call of the decoder
_MAX_HISTORY = 1 << 16  # padded history positions per call of the decoder; each row has a copy of its history


@dataclass(frozen=True)
class ModelConfig:
    """Sizes and named variants of the model; the defaults are the paper's for WebNLG (appendix D)."""

    width: int = 256
    heads: int = 4
    layers: int = 2
    feed_forward: int = 512
    dropout: float = 0.2
    predicate_dim: int = 128
    max_group_size: int = 3  # L: the largest number of triples that share a fact
    transition: Variant = "normalised"
    history: Literal["shared", "masked"] = "shared"
    copy: bool = True  # whether words of the source can be copied (pointer-generator)
    copy_next: bool = False  # a learned bonus for copying the source word that follows the last generated word
    coverage: bool = False  # whether the decoder's output depends on the values that are missing (`model.coverage`)
    unseen_words: int = 0  # number of embeddings for a record's out-of-vocabulary words; 0: all share that of UNK
    predicate_dropout: float = 0.02  # fraction of predicates replaced by the unknown predicate (row 0) in training

    def __post_init__(self) -> None:
        sizes = ("width", "heads", "layers", "feed_forward", "predicate_dim", "max_group_size")
        check_minima(self, {**dict.fromkeys(sizes, 1), "unseen_words": 0}, "model.")
        if self.width % self.heads or self.width % 2:
            raise ConfigError(f"model.width {self.width} must be even and a multiple of the {self.heads} heads")
        check_below_one(self, ("dropout", "predicate_dropout"), "model.")


class Memory(NamedTuple):
    """An encoded batch of sources, for the decoder's cross-attention and for copying."""

    ids: Tensor  # (B, M) source token ids, for copying
    triple: Tensor  # (B, M) triple index, -1 for [CLS] and padding
    cross: list[KeysValues]  # per decoder layer, (B, H, M, D / H) each
    copy_keys: Tensor  # (B, M, D)
    object_shares: Tensor  # (B, M), see `agggen.model.coverage`

    def rows(self, index: Tensor) -> Memory:
        """The memory of the records `index` (R,), one record per row."""
        cross = [(key[index], value[index]) for key, value in self.cross]
        return Memory(self.ids[index], self.triple[index], cross, self.copy_keys[index], self.object_shares[index])

    def is_triple_token(self) -> Tensor:
        """(B, M), whether a token belongs to a triple."""
        return self.triple >= 0

    def is_token_of(self, members: Tensor) -> Tensor:
        """(R, M), whether a token belongs to one of the triples in `members` (R, J)."""
        return members.gather(1, self.triple.clamp(min=0)) & self.is_triple_token()


class JointModel(nn.Module):
    """Encoder, decoder, copying and transitions. The first `n_output` of the `n_words` words can be generated."""

    def __init__(self, config: ModelConfig, n_words: int, n_output: int, n_predicates: int) -> None:
        super().__init__()
        self.config, self.n_words, self.n_output = config, n_words, n_output
        self.embedding = nn.Embedding(n_words, config.width)
        nn.init.normal_(self.embedding.weight, std=config.width**-0.5)
        if config.unseen_words:
            self.unseen = nn.Embedding(config.unseen_words, config.width)
            nn.init.normal_(self.unseen.weight, std=config.width**-0.5)
        self.role = nn.Embedding(4, config.width)
        self.encoder = nn.ModuleList(
            EncoderLayer(config.width, config.heads, config.feed_forward, config.dropout) for _ in range(config.layers)
        )
        self.encoder_norm = nn.LayerNorm(config.width)
        self.decoder = Decoder(config.layers, config.width, config.heads, config.feed_forward, config.dropout)
        self.output_bias = nn.Parameter(torch.zeros(n_output))
        self.copy_query = nn.Linear(config.width, config.width)
        self.copy_key = nn.Linear(config.width, config.width)
        self.copy_gate = nn.Linear(config.width, 1)
        if config.copy_next:
            self.copy_next = nn.Linear(config.width, 1)
        self.coverage = Coverage(config.width) if config.coverage else None
        self.transitions = Transitions(n_predicates, config.predicate_dim, config.max_group_size, config.transition)
        self.dropout = nn.Dropout(config.dropout)
        self.positions: Tensor
        self.register_buffer("positions", sinusoids(512, config.width), persistent=False)

    def _embed(self, ids: Tensor, positions: Tensor, length: int) -> Tensor:
        """Embeddings of token ids (any shape) at positions less than `length`."""
        if length > len(self.positions):  # extend the table of sinusoids for longer texts
            self.positions = to_device(sinusoids(length * 2, self.config.width), self.positions.device)
        words = self.embedding(torch.where(ids < self.n_words, ids, UNK))
        if self.config.unseen_words:  # so that a name of several out-of-vocabulary words can be copied in order
            is_extra = ids >= self.n_words
            extra_number = torch.where(is_extra, ids - self.n_words, 0) % self.config.unseen_words
            words = words + torch.where(is_extra[..., None], self.unseen(extra_number), 0.0)
        return words * self.config.width**0.5 + self.positions[positions]

    def encode(self, batch: Batch) -> Memory:
        mask = (batch.source != PAD)[:, None, None]
        n_tokens = batch.source.shape[1]
        x = self._embed(batch.source, torch.arange(n_tokens, device=batch.source.device), n_tokens)
        x = self.dropout(x + self.role(batch.role))
        for layer in self.encoder:
            x = layer(x, mask)
        x = self.encoder_norm(x)
        shares = object_shares(batch.triple, batch.role == ROLE_OBJECT)
        return Memory(batch.source, batch.triple, self.decoder.memory_keys_values(x), self.copy_key(x), shares)

    def embed_target(self, ids: Tensor, positions: Tensor, length: int) -> Tensor:
        """Decoder inputs for token ids (R, n) at positions (R, n) or (n,), all less than `length`."""
        return self.dropout(self._embed(ids, positions, length))

    def _embed_text(self, batch: Batch) -> Tensor:
        n_tokens = batch.inputs.shape[1]
        return self.embed_target(batch.inputs, torch.arange(n_tokens, device=batch.inputs.device), n_tokens)

    def word_logits(self, hidden: Tensor) -> Tensor:
        """Logits (..., V) over the output words; the weights are tied to the embedding."""
        return F.linear(hidden, self.embedding.weight[: self.n_output], self.output_bias)

    def copy_attention(
        self, hidden: Tensor, inputs: Tensor, memory: Memory, visible: Tensor
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Log-attention over source tokens (R, n, M), log p(generate) and log p(copy) (R, n)."""
        scores = full_precision(self.copy_query(hidden) @ memory.copy_keys.mT) * self.config.width**-0.5
        if self.config.copy_next:
            is_next = F.pad(memory.ids[:, None, :-1] == inputs[..., None], (1, 0)) & (memory.ids > END)[:, None]
            scores = scores + full_precision(self.copy_next(hidden)) * is_next
        attention = torch.log_softmax(scores.masked_fill(~visible[:, None], IMPOSSIBLE), -1)
        gate = full_precision(self.copy_gate(hidden).squeeze(-1))
        return attention, F.logsigmoid(gate), F.logsigmoid(-gate)

    def token_log_probs(
        self,
        hidden: Tensor,
        inputs: Tensor,
        targets: Tensor,
        scored: Tensor,
        memory: Memory,
        visible: Tensor,
        smoothing: float = 0.0,
    ) -> Tensor:
        """log p of target tokens (R, n) after `inputs` (R, n) with hidden (R, n, D); zeros where not `scored` (R, n).

        A word that can be neither generated nor copied from a visible token is scored as UNK, so the likelihood is
        finite. With label smoothing, the mean log-probability of all output words replaces the fraction `smoothing` of
        each score. If `scored` is in main memory, the CPU does not synchronise with a GPU.
        """
        scored_index = tuple(to_device(axis, hidden.device) for axis in scored.nonzero(as_tuple=True))
        scored_targets = targets[scored_index]
        can_generate = scored_targets < self.n_output
        logits = full_precision(self.word_logits(hidden[scored_index]))
        log_p = -F.cross_entropy(logits, torch.where(can_generate, scored_targets, UNK), reduction="none")
        if self.config.copy:
            attention, log_generate, log_copy = self.copy_attention(hidden, inputs, memory, visible)
            is_copy = (memory.ids[:, None] == targets[..., None]) & visible[:, None]
            copied = torch.logsumexp(attention.masked_fill(~is_copy, IMPOSSIBLE), -1)
            generated = log_p.masked_fill(~can_generate & is_copy.any(-1)[scored_index], IMPOSSIBLE)
            log_p = torch.logaddexp(log_generate[scored_index] + generated, (log_copy + copied)[scored_index])
        if smoothing:
            uniform = logits.mean(-1) - torch.logsumexp(logits, -1)
            log_p = (1 - smoothing) * log_p + smoothing * uniform
        return torch.zeros(targets.shape, dtype=log_p.dtype, device=log_p.device).index_put(scored_index, log_p)

    def next_words(
        self,
        hidden: Tensor,
        inputs: Tensor,
        memory: Memory,
        visible: Tensor,
        forbidden_at: Tensor,
        k: int,
        forbidden_in_row: Tensor | None = None,
    ) -> tuple[Tensor, Tensor, Tensor]:
        """Candidates for the next word after `inputs` (R, n) with hidden (R, n, D): log p (R, n, k + M), ids (R, n,
        k + M), and log p of END (R, n). The last M columns are the words of the source, generated or copied, the k
        columns before them (or fewer) the most probable other words; duplicates and special tokens are IMPOSSIBLE.

        Args:
            visible: (R, M), whether a source token may be copied.
            forbidden_at: (R, n, any), ids that are forbidden at a position, padded with PAD.
            forbidden_in_row: (R, ids), whether an id is forbidden in the row; ids include out-of-vocabulary words.
        """
        ids = memory.ids
        same_word = ids[:, None] == ids[:, :, None]
        is_first = ~same_word.tril(-1).any(-1) & (ids > END)  # the first occurrence of each word; no special tokens
        output_ids = torch.where(ids < self.n_output, ids, UNK)[:, None].expand(*hidden.shape[:2], -1)
        generated = torch.log_softmax(full_precision(self.word_logits(hidden)), -1)
        source_log_p = generated.gather(2, output_ids).masked_fill((ids >= self.n_output)[:, None], IMPOSSIBLE)
        log_generate = generated.new_zeros(hidden.shape[:2])
        if self.config.copy:
            attention, log_generate, log_copy = self.copy_attention(hidden, inputs, memory, visible)
            copied = torch.log((attention + log_copy[..., None]).exp() @ same_word.to(attention.dtype))
            source_log_p = torch.logaddexp(source_log_p + log_generate[..., None], copied)
        source_log_p.masked_fill_(~is_first[:, None], IMPOSSIBLE)
        end_log_p = generated[..., END] + log_generate
        generated[..., : END + 1] = IMPOSSIBLE
        generated.scatter_(2, output_ids, IMPOSSIBLE)
        row, position, number = forbidden_at.nonzero(as_tuple=True)
        if len(row):
            word = forbidden_at[row, position, number]
            generated[row, position, torch.where(word < self.n_output, word, PAD)] = IMPOSSIBLE
            match, column = (ids[row] == word[:, None]).nonzero(as_tuple=True)
            source_log_p[row[match], position[match], column] = IMPOSSIBLE
        if forbidden_in_row is not None:
            generated.masked_fill_(forbidden_in_row[:, None, : self.n_output], IMPOSSIBLE)
            source_log_p.masked_fill_(forbidden_in_row.gather(1, ids)[:, None], IMPOSSIBLE)
        log_p, words = generated.topk(min(k, self.n_output), -1)
        log_p = torch.cat((log_p + log_generate[..., None], source_log_p), 2)
        return log_p, torch.cat((words, ids[:, None].expand_as(source_log_p)), 2), end_log_p

    def text_log_probs(self, batch: Batch, smoothing: float = 0.0) -> Tensor:
        """log p(y | x) of the texts under the plain Transformer, (B,); `batch` is collated with `single_fact=True`."""
        memory = self.encode(batch)
        visible = memory.is_triple_token()
        hidden = self.decoder(self._embed_text(batch), memory.cross, visible[:, None, None])
        if self.coverage:
            generated = generated_before(memory.ids, batch.inputs)
            hidden = self.coverage(hidden, memory.object_shares * visible, generated)
        scored = batch.on_cpu.targets != PAD
        return self.token_log_probs(hidden, batch.inputs, batch.targets, scored, memory, visible, smoothing).sum(1)

    def lattice_of(self, batch: Batch) -> Lattice:
        """The lattice of the largest record in the batch."""
        return build_lattice(batch.predicates.shape[1], self.config.max_group_size, str(batch.predicates.device))

    def transition_scores(self, batch: Batch, lattice: Lattice) -> TransitionScores:
        """The transition scores of the batch; in training, random predicates are replaced by the unknown predicate."""
        predicates = batch.predicates
        if self.training and self.config.predicate_dropout:
            is_dropped = torch.rand(predicates.shape, device=predicates.device) < self.config.predicate_dropout
            predicates = torch.where(is_dropped, 0, predicates)
        return self.transitions(predicates, batch.n_triples, lattice)

    def emissions(
        self, batch: Batch, allowed: Tensor, lattice: Lattice, memory: Memory | None = None, only_ends: bool = False
    ) -> Tensor:
        """log p(y_t | set, x, y_1..t-1), (B, T, C); IMPOSSIBLE where `allowed` (B, T, C; in main memory) is False.

        `memory` is the encoded batch, if it exists. With `only_ends`, only END is scored, after the fact's words.
        """
        memory = memory or self.encode(batch)
        rows = allowed.nonzero().cpu()  # (R, 3): record, fact, set
        lengths = batch.on_cpu.fact_length[rows[:, 0], rows[:, 1]]
        fact_starts = batch.on_cpu.fact_start[rows[:, 0], rows[:, 1]]
        if self.config.history == "masked":
            lengths = lengths + fact_starts
            history = None
        else:
            history = self.decoder.keys_values_only(
                self._embed_text(batch), memory.cross, memory.is_triple_token()[:, None, None]
            )
        order = torch.argsort(lengths, stable=True)  # rows of similar length share a call, to reduce padding
        sorted_lengths = lengths[order].tolist()
        sorted_starts = [0] * len(sorted_lengths) if history is None else fact_starts[order].tolist()

        def score(chunk: Tensor) -> Tensor:
            return self._score_rows(batch, memory, history, rows[chunk], lattice, only_ends)

        # A single text over the limit is scored with gradient checkpointing.
        if len(batch) == 1 and int(lengths.sum()) > _MAX_POSITIONS and torch.is_grad_enabled():
            chunks = _chunks(order, sorted_lengths, sorted_starts, _MAX_POSITIONS // 4)
            scores = [checkpoint(score, chunk, use_reentrant=False) for chunk in chunks]
        else:
            scores = [score(chunk) for chunk in _chunks(order, sorted_lengths, sorted_starts, _MAX_POSITIONS)]
        values = torch.cat(scores)
        entries = tuple(to_device(axis, values.device) for axis in rows[order].T)
        return values.new_full(allowed.shape, IMPOSSIBLE).index_put(entries, values)

    def _score_rows(
        self,
        batch: Batch,
        memory: Memory,
        history: list[KeysValues] | None,
        rows: Tensor,
        lattice: Lattice,
        only_ends: bool,
    ) -> Tensor:
        """log p, (R,), of the facts in `rows` (R, 3; on the CPU), each under its set."""
        cpu_batch, device = batch.on_cpu, memory.ids.device
        record, fact, set_index = rows.T
        start, length = cpu_batch.fact_start[record, fact], cpu_batch.fact_length[record, fact]
        if history is None:  # the text from its beginning, under this set's mask
            position = torch.arange(int((start + length).max())).expand(len(rows), -1)
            in_text = position < (start + length)[:, None]
            in_fact = in_text & (position >= start[:, None])
        else:
            position = start[:, None] + torch.arange(int(length.max()))
            in_text = in_fact = position < (start + length)[:, None]
        position = torch.where(in_text, position, 0)
        inputs, targets = cpu_batch.inputs[record[:, None], position], cpu_batch.targets[record[:, None], position]
        scored = in_fact & (targets == END) if only_ends else in_fact
        n_past = int(start.max())
        record, set_index, start, position, inputs, targets = (
            to_device(tensor, device) for tensor in (record, set_index, start, position, inputs, targets)
        )
        past, mask = None, None
        if history is not None:
            past = [(key[record, :, :n_past], value[record, :, :n_past]) for key, value in history]
            n = inputs.shape[1]
            in_history = torch.arange(n_past, device=device) < start[:, None]
            causal = torch.ones(n, n, dtype=torch.bool, device=device).tril().expand(len(rows), -1, -1)
            mask = torch.cat((in_history[:, None].expand(-1, n, -1), causal), -1)[:, None]
        row_memory = memory.rows(record)
        visible = row_memory.is_token_of(lattice.set_members[set_index])
        x = self.embed_target(inputs, position, batch.inputs.shape[1])
        hidden = self.decoder(x, row_memory.cross, visible[:, None, None], past, mask)
        if self.coverage:
            fact_inputs = torch.where(to_device(in_fact, device), inputs, PAD)
            generated = generated_before(row_memory.ids, fact_inputs)
            hidden = self.coverage(hidden, row_memory.object_shares * visible, generated)
        return self.token_log_probs(hidden, inputs, targets, scored, row_memory, visible).sum(1)

    def potentials(
        self, batch: Batch, alignment_penalty: float | None = None, memory: Memory | None = None
    ) -> tuple[Potentials, Lattice]:
        """All log-potentials of the HMM for a batch of segmented texts, without states that violate an alignment (paper
        section 3.3); with a penalty, in nats, states with one violation are penalised. `memory`: as in `emissions`.
        """
        lattice = self.lattice_of(batch)
        max_violations = 0 if alignment_penalty is None else 1
        allowed = allowed_sets(batch.on_cpu, self.lattice_of(batch.on_cpu), max_violations)
        scores = self.transition_scores(batch, lattice)
        emission = self.emissions(batch, allowed, lattice, memory)
        if alignment_penalty is not None:
            emission = emission - alignment_penalty * alignment_violations(batch, lattice).to(emission.dtype)
        exponents = self.transitions.within_exponents(batch.n_facts, emission.shape[1])
        node = emission[..., lattice.set_of] + exponents[..., None] * scores.within[:, None]
        return Potentials(scores.start, scores.out, torch.clamp(node, min=IMPOSSIBLE), batch.n_facts), lattice

    def log_likelihood(
        self, batch: Batch, alignment_penalty: float | None = None, memory: Memory | None = None
    ) -> Tensor:
        """log p(y | x), (B,), marginal over all plans that remain after pruning (paper section 3.3)."""
        return log_likelihood(*self.potentials(batch, alignment_penalty, memory))

    def joint_loss(self, batch: Batch, alignment_penalty: float | None = None, omission_weight: float = 0.0) -> Tensor:
        """-log p(y | x), summed over the batch, plus the weighted `omission_loss`."""
        memory = self.encode(batch)
        loss = -self.log_likelihood(batch, alignment_penalty, memory).sum()
        return loss + omission_weight * self.omission_loss(batch, memory) if omission_weight else loss

    def omission_loss(self, batch: Batch, memory: Memory) -> Tensor:
        """-log(1 - p(END)), summed over the facts, each under a random set of which it omits triples (`omitted_sets`);
        unlikelihood training (Welleck et al. 2020). A fact thus should not end before all its triples are expressed.
        """
        omitted = omitted_sets(batch.on_cpu, self.lattice_of(batch.on_cpu))
        random_set = torch.rand(omitted.shape).masked_fill(~omitted, -1.0).argmax(2, keepdim=True)
        chosen = torch.zeros_like(omitted).scatter(2, random_set, True) & omitted
        if not bool(chosen.any()):
            return memory.copy_keys.new_zeros(())
        log_p = self.emissions(batch, chosen, self.lattice_of(batch), memory, only_ends=True)
        probability = log_p[to_device(chosen, log_p.device)].exp()
        return -torch.log1p(-probability.clamp(max=1 - 1e-6)).sum()


def _chunks(order: Tensor, lengths: list[int], starts: list[int], budget: int) -> list[Tensor]:
    """Splits `order`, rows sorted by `lengths`, into chunks of at most `budget` and `_MAX_HISTORY` padded positions."""
    chunks, begin, longest = [], 0, 0
    for end, (length, start) in enumerate(zip(lengths, starts, strict=True)):
        rows = end + 1 - begin
        longest = max(longest, start)
        if rows > 1 and (length * rows > budget or longest * rows > _MAX_HISTORY):
            chunks.append(order[begin:end])
            begin, longest = end, start
    return [*chunks, order[begin:]] if lengths else chunks
