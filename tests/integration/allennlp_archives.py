"""Trains tiny AllenNLP archives. Run by the Python of AllenNLP's environment: ``allennlp_archives.py FOLDER``.

Writes ``bert.tar.gz`` (SrlBert on ``tiny-uncased``, a random BERT of two layers), ``lstm.tar.gz`` (the BiLSTM),
``en_verbs`` (a spaCy pipeline that tags the verbs below), and the predictions of AllenNLP's own predictor for UNSEEN
with each archive and this pipeline: ``bert.jsonl`` and ``lstm.jsonl``.
"""

import json
import os
import re
import shutil
import sys
from importlib import import_module
from pathlib import Path
from typing import Any

SENTENCES = (
    "[ARG0: Ada] [V: wrote] [ARG1: the first program] .",
    "[ARG0: The engine] [ARGM-NEG: never] [V: ran] [ARG1: her program] .",
    "[ARG1: A statue of Babbage] was [V: built] [ARGM-LOC: in London] .",
    "[ARG0: The engineer] , [R-ARG0: who] [V: built] [ARG1: the engine] , lives in Turin .",
    "[ARG0: The engineer , who built the engine ,] [V: lives] [ARG1: in Turin] .",
    "[ARG0: London] [V: lies] [ARG1: on the river Thames] .",
    "[ARG0: Turin] [V: lies] [ARG1: on the river Po] .",
    "[ARG0: Babbage] [V: sold] [ARG1: his engine] [ARGM-TMP: in 1842] .",
    "[ARG0: Ada] [V: sold] [ARG1: the program] [ARGM-LOC: in Turin] .",
    "[ARG0: The river] [V: runs] [ARG1: through London] .",
)
UNSEEN = (
    "Babbage wrote the engine in London .",
    "The statue , who never sold a program , lies on the first river .",
    "Somebody Else was built !",
    "A river runs through Turin and built London , lies in 1842 .",
    "No verb here .",
)
_PIECE = re.compile(r"\[(?P<role>[\w-]+): (?P<words>[^\]]+)\]|(?P<bare>\S+)")


def parse(sentence: str) -> tuple[list[str], list[str]]:
    """The words of a sentence and the CoNLL-2012 bracket of each: ``(ARG0*``, ``*`` or ``*)``."""
    words: list[str] = []
    marks: list[str] = []
    for piece in _PIECE.finditer(sentence):
        piece_words = (piece["words"] or piece["bare"]).split()
        words += piece_words
        brackets = ["*"] * len(piece_words)
        if piece["role"]:
            brackets[0] = f"({piece['role']}*"
            brackets[-1] += ")"
        marks += brackets
    return words, marks


def conll(sentence: str) -> str:
    words, marks = parse(sentence)
    rows = []
    for number, (word, mark) in enumerate(zip(words, marks)):  # noqa: B905 (strict is not for Python 3.9)
        lemma, frame = (word, "01") if mark.startswith("(V") else ("-", "-")
        columns = ("made/up", "0", str(number), word, "XX", "*", lemma, frame, "-", "-", "*", mark, "-")
        rows.append("   ".join(columns))
    return "\n".join(rows) + "\n\n"


def tiny_bert(folder: Path) -> None:
    transformers = import_module("transformers")
    folder.mkdir()
    words = sorted({word.lower() for sentence in SENTENCES for word in parse(sentence)[0]})
    letters = [chr(code) for code in range(33, 127) if not chr(code).isupper()]
    pieces = dict.fromkeys(
        ["[PAD]", "[UNK]", "[CLS]", "[SEP]", "[MASK]", *words, *letters, *(f"##{letter}" for letter in letters)]
    )
    (folder / "vocab.txt").write_text("\n".join(pieces) + "\n", encoding="utf-8")
    config = transformers.BertConfig(
        vocab_size=len(pieces),
        hidden_size=32,
        num_hidden_layers=2,
        num_attention_heads=2,
        intermediate_size=64,
        max_position_embeddings=48,
        hidden_dropout_prob=0.0,
        attention_probs_dropout_prob=0.0,
    )
    transformers.BertModel(config).save_pretrained(folder)


def train(folder: Path, name: str, reader: dict[str, Any], model: dict[str, Any], rate: float) -> None:
    params = {
        "dataset_reader": {"type": "srl", **reader},
        "model": {"ignore_span_metric": True, **model},
        "train_data_path": str(folder / "conll"),
        "data_loader": {"batch_size": 5, "shuffle": True},
        "trainer": {"num_epochs": 60, "optimizer": {"type": "adam", "lr": rate}, "cuda_device": -1},
    }
    run = folder / name
    params = import_module("allennlp.common.params").Params(params)
    import_module("allennlp.commands.train").train_model(params, str(run), force=True)
    shutil.copy(run / "model.tar.gz", folder / f"{name}.tar.gz")


def spacy_verbs(folder: Path) -> None:
    """Saves a pipeline that tags by a table, in place of spaCy's English model, which the predictor expects."""
    nlp = import_module("spacy").blank("en")
    verbs = {words[marks.index("(V*)")] for words, marks in map(parse, SENTENCES)}
    ruler = nlp.add_pipe("attribute_ruler")
    for verb in sorted(verbs):
        ruler.add([[{"ORTH": verb}]], {"POS": "VERB"})
    ruler.add([[{"ORTH": "was"}]], {"POS": "AUX"})
    nlp.to_disk(folder)


def predict(folder: Path, name: str) -> None:
    """Writes AllenNLP's predictions for UNSEEN. Its predictor recognises English models by names without a path."""
    os.chdir(folder)
    archive = import_module("allennlp.models.archival").load_archive(f"{name}.tar.gz")
    archive.model.eval()
    predictors = import_module("allennlp_models.structured_prediction.predictors.srl")
    predictor = predictors.SemanticRoleLabelerPredictor(archive.model, archive.dataset_reader, "en_verbs")
    with open(f"{name}.jsonl", "w", encoding="utf-8") as stream:
        for sentence in UNSEEN:
            prediction = predictor.predict_tokenized(sentence.split())
            stream.write(json.dumps({"words": sentence.split(), "verbs": prediction["verbs"]}) + "\n")


def main(folder: Path) -> None:
    import_module("torch").set_num_threads(1)
    import_module("allennlp_models.structured_prediction")
    (folder / "conll").mkdir(parents=True)
    text = "#begin document (made/up); part 000\n" + "".join(map(conll, SENTENCES)) + "#end document\n"
    (folder / "conll" / "sample.gold_conll").write_text(text, encoding="utf-8")
    bert = str(folder / "tiny-uncased")
    tiny_bert(Path(bert))
    train(folder, "bert", {"bert_model_name": bert}, {"type": "srl_bert", "bert_model": bert}, 3e-3)
    words = {"token_embedders": {"tokens": {"type": "embedding", "embedding_dim": 24}}}
    encoder = {"type": "alternating_lstm", "input_size": 32, "hidden_size": 48, "num_layers": 2, "use_highway": True}
    lstm = {"type": "srl", "text_field_embedder": words, "encoder": encoder, "binary_feature_dim": 8}
    train(folder, "lstm", {}, lstm, 1e-2)
    spacy_verbs(folder / "en_verbs")
    predict(folder, "bert")
    predict(folder, "lstm")


if __name__ == "__main__":
    main(Path(sys.argv[1]))
