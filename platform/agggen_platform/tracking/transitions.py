"""A model's transition probabilities between predicates, as a table for MLflow."""

import csv
import io

import torch

from agggen.bundle import Bundle

COLUMNS = ("last", "relation", "next", "probability")
_LIMIT = 5  # rows for each predicate and relation


def transitions_table(bundle: Bundle) -> str:
    """CSV of the most probable predicates after each one (`last`; empty: the beginning of a text or fact).

    Probabilities are for a record that has every predicate of the model once.
    """
    parameters = bundle.model.transitions
    names = list(bundle.encoder.predicates)[1:]  # index 0 is for predicates that training never saw
    text = io.StringIO()
    table = csv.writer(text, lineterminator="\n")
    table.writerow(COLUMNS)
    weights = {"next fact": (parameters.a_out, parameters.b_out), "same fact": (parameters.a_in, parameters.b_in)}
    for relation, (last, following) in weights.items():
        with torch.no_grad():
            logits = (last[1:] @ following[1:].T).float().cpu()  # (K + 1, K) for K predicates; last row: the beginning
        if len(names) > 1:
            logits[:-1].fill_diagonal_(-torch.inf)
        best = logits.roll(1, 0).softmax(-1).topk(min(_LIMIT, len(names)))
        for name, values, indices in zip(["", *names], best.values.tolist(), best.indices.tolist(), strict=True):
            table.writerows(
                (name, relation, names[index], f"{value:.4f}")
                for value, index in zip(values, indices, strict=True)
                if value > 0
            )
    return text.getvalue()
