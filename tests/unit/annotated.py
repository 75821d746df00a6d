"""The 274 tokenised WebNLG texts of the AggGen release with human alignments."""

import re
from pathlib import Path

from agggen.records import Record, Triple


def groups_of(plan: str) -> list[list[str]]:
    """The predicates of each fact in the release's notation ``a&&b||c``; they may be empty."""
    return [[name for name in fact.split("&&") if name] for fact in plan.split("|")]


def annotated_texts(data_home: Path) -> list[tuple[Record, list[str], list[list[str]]]]:
    """(record, facts, annotated predicates of each fact) of each text."""
    folder = data_home / "agggen_release" / "human_annotations" / "evaluation"
    sources, plans, targets = (
        (folder / name).read_text(encoding="utf-8").splitlines()
        for name in ("webnlg_ann_src.jsonl", "rst_ann_gt_plan.jsonl", "rst_ann_tgt.jsonl")
    )
    texts = []
    for number, (source, plan, target) in enumerate(zip(sources, plans, targets, strict=True)):
        *triples, relations = source.split("\t")
        names = relations.split("|")
        record_triples = []
        for name, triple in zip(names, triples, strict=True):
            relation = name if f" {name} " in triple else re.sub(r"_\d+$", "", name)
            subject, _, value = triple.partition(f" {relation} ")
            record_triples.append(Triple(subject, relation, value))
        record = Record(str(number), tuple(record_triples))
        predicate_of = dict(zip(names, record.predicates, strict=True))
        groups = [[predicate_of[name] for name in fact] for fact in groups_of(plan)]
        texts.append((record, target.split("\t")[1:], groups))
    return texts
