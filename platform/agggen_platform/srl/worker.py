"""The worker process: loads an AllenNLP archive and tags sentences. It runs in AllenNLP's Python environment.

This file must run on Python 3.9 and 3.10 and must not import agggen. It reads requests as JSON lines from standard
input and writes responses as JSON lines to standard output; libraries print to standard error. The first request:

    {"op": "start", "archive": PATH or null, "sha256": "...", "device": "cpu", "threads": null, "bert": null,
     "spacy": null}

    {"ready": {versions, ...}}    its response; with "archive": null, the worker only imports the libraries

Later requests, each with the positions of the predicates among the words:

    {"op": "tag", "sentences": [{"words": [...], "predicates": [3]}]}
    {"results": [{"frames": [{"predicate": 3, "tags": ["B-ARG0", ...]}]} or {"error": "why"}, ...]}

If a whole request fails, the response is {"failed": "why"}. The worker exits at the end of its input, or when its
parent process (its id is the command-line argument) dies. Loading an archive executes its author's code (pickles).
"""

from __future__ import annotations

import hashlib
import json
import logging
import os
import sys
import tarfile
import threading
import time
import traceback
from importlib import import_module
from typing import Any

MODEL_TYPES = ("srl", "srl_bert")
PIECES_AT_ONCE = 8192  # maximum word pieces per batch of the model, including padding
INSTANCES_AT_ONCE = 64  # maximum instances, that is, (sentence, predicate) pairs, per batch of the model


class UserError(Exception):
    """An error that the user can correct; the message describes the remedy."""


def main() -> None:
    requests, answers = os.fdopen(os.dup(0), "rb"), os.fdopen(os.dup(1), "w", encoding="utf-8")
    os.dup2(os.open(os.devnull, os.O_RDONLY), 0)
    os.dup2(2, 1)
    threading.Thread(target=_exit_with_parent, args=(int(sys.argv[1]),), daemon=True).start()
    logging.basicConfig(stream=sys.stderr, level=logging.WARNING)
    labeller: Any = None
    for line in requests:
        request = json.loads(line.decode("utf-8"))
        try:
            if request["op"] == "start":
                labeller, answer = start(request)
            else:
                answer = {"results": labeller.tag(request["sentences"])}
        except UserError as error:
            answer = {"failed": str(error)}
        except Exception as error:
            traceback.print_exc()
            answer = {"failed": _reason(error)}
        answers.write(json.dumps(answer) + "\n")
        answers.flush()


def _exit_with_parent(parent: int) -> None:
    """Ends this process when its parent dies, because a fork of the parent could keep the standard input open."""
    while os.getppid() == parent:
        time.sleep(1.0)
    os._exit(1)


def start(options: Any) -> Any:
    """Handles the first request; returns the labeller (None without an archive) and the response."""
    path = options["archive"]
    if path is None:
        return None, {"ready": load_libraries(options["threads"])}
    # Check the digest before unpickling, and before the imports, which take seconds.
    actual = hash_of(path)
    if actual != options["sha256"]:
        raise UserError(f"{path} has the sha256 {actual}, not {options['sha256']}")
    config = read_config(path)
    versions = load_libraries(options["threads"])
    labeller = Labeller(options, config)
    info = {"sha256": actual, "model": labeller.type, "device": options["device"], "limit": labeller.limit}
    info["lowercase"] = getattr(labeller.reader, "lowercase_input", False)
    return labeller, {"ready": dict(versions, **info)}


def load_libraries(threads: Any) -> Any:
    """Imports the libraries of the model; returns their versions by name."""
    torch = import_module("torch")
    torch.ones(1).numpy()  # raises with numpy 2, which torch 1.12 does not support
    if threads:
        torch.set_num_threads(threads)
    import_module("allennlp_models.structured_prediction")  # registers the models
    return {
        "python": ".".join(str(part) for part in sys.version_info[:3]),
        "allennlp": import_module("allennlp.version").VERSION,
        "allennlp-models": import_module("allennlp_models.version").VERSION,
        "torch": str(torch.__version__),
        "transformers": import_module("transformers").__version__,
        "spacy": import_module("spacy").__version__,
    }


def hash_of(path: str) -> str:
    """The SHA-256 of a file; for a folder, of the names and hashes of its files."""
    digest = hashlib.sha256()
    if os.path.isdir(path):
        for folder, folders, names in os.walk(path):
            folders.sort()
            for name in sorted(names):
                file = os.path.join(folder, name)
                digest.update(f"{os.path.relpath(file, path)}\0{hash_of(file)}\n".encode())
        return digest.hexdigest()
    with open(path, "rb") as stream:
        for chunk in iter(lambda: stream.read(1 << 20), b""):
            digest.update(chunk)
    return digest.hexdigest()


def read_config(path: str) -> Any:
    """Reads the configuration of an archive without unpickling anything."""
    try:
        if os.path.isdir(path):
            with open(os.path.join(path, "config.json"), encoding="utf-8") as stream:
                config = json.load(stream)
        else:
            with tarfile.open(path, "r:gz") as archive:
                entry = next((entry for entry in archive if os.path.normpath(entry.name) == "config.json"), None)
                config_file = archive.extractfile(entry) if entry else None
                config = json.load(config_file) if config_file else {}
        model_type = config["model"]["type"]
    except (tarfile.TarError, EOFError, OSError, KeyError, TypeError, ValueError) as error:
        raise UserError(
            f"{path} is not an AllenNLP archive: a .tar.gz (or its folder) with config.json, weights.th and "
            f"vocabulary/ ({_reason(error)})"
        ) from error
    if model_type not in MODEL_TYPES:
        raise UserError(
            f"{path} has the model type {model_type!r}; semantic role labelling needs {' or '.join(MODEL_TYPES)}"
        )
    return config


class Labeller:
    """The model of an archive and the dataset reader that creates its inputs."""

    def __init__(self, options: Any, config: Any) -> None:
        self.type = config["model"]["type"]
        bert_name = str(config.get("dataset_reader", {}).get("bert_model_name"))
        overrides = _overrides(config, options["bert"]) if options["bert"] and self.type == "srl_bert" else {}
        device = -1 if options["device"] == "cpu" else int(options["device"].partition(":")[2] or 0)
        load_archive = import_module("allennlp.models.archival").load_archive
        try:
            archive = load_archive(options["archive"], cuda_device=device, overrides=json.dumps(overrides))
        except OSError as error:
            if self.type == "srl_bert" and not overrides and not os.path.isdir(bert_name):
                raise UserError(
                    f"the archive needs the BERT model {bert_name!r}, which is not on this machine; set bert to a "
                    f"folder with its config.json and vocab.txt, or set online=true to allow the download. {error}"
                ) from error
            raise
        self.model, self.reader = archive.model, archive.validation_dataset_reader
        self.model.eval()
        if overrides:
            self.reader.lowercase_input = "uncased" in bert_name  # with the override, AllenNLP tests the folder's name
        # The maximum number of word pieces per sentence; None: unlimited.
        self.limit = self.model.bert_model.config.max_position_embeddings if self.type == "srl_bert" else None
        self.token = import_module("allennlp.data.tokenizers").Token
        self.nlp: Any = import_module("spacy").load(options["spacy"]) if options["spacy"] else None

    def tag(self, sentences: Any) -> Any:
        """For each sentence, its frames or an error message, as in a response."""
        results: Any = [{"frames": []} for _ in sentences]
        tasks = []  # (number of word pieces, sentence number, predicate position, instance)
        for number, sentence in enumerate(sentences):
            try:
                for predicate in self.predicates(sentence):
                    instance = self.instance(sentence["words"], predicate)
                    tasks.append((len(instance["tokens"]), number, predicate, instance))
            except Exception as error:
                results[number] = {"error": _reason(error)}
        tasks = [task for task in tasks if "error" not in results[task[1]]]
        tasks.sort(key=lambda task: task[0])
        for batch in _batches(tasks):
            self.tag_batch(batch, results)
        for result in results:
            if "error" not in result:
                result["frames"].sort(key=lambda frame: frame["predicate"])
        return results

    def tag_batch(self, tasks: Any, results: Any) -> None:
        """Adds the frames of a batch of tasks to `results`; if the batch fails, tags its tasks one by one."""
        try:
            outputs = self.model.forward_on_instances([task[3] for task in tasks])
        except Exception as error:
            if len(tasks) == 1:
                results[tasks[0][1]] = {"error": _reason(error)}
            else:
                for task in tasks:
                    self.tag_batch([task], results)
            return
        for (_, number, predicate, _), output in zip(tasks, outputs):  # noqa: B905 (strict is not for Python 3.9)
            if "error" not in results[number]:
                results[number]["frames"].append({"predicate": predicate, "tags": list(output["tags"])})

    def instance(self, words: Any, predicate: int) -> Any:
        """The model's input for one predicate of a sentence."""
        indicator = [0] * len(words)
        indicator[predicate] = 1
        instance = self.reader.text_to_instance([self.token(word) for word in words], indicator)
        pieces = len(instance["tokens"])
        if self.limit is not None and pieces > self.limit:
            raise UserError(f"the sentence has {pieces} word pieces, but the model's maximum is {self.limit}")
        return instance

    def predicates(self, sentence: Any) -> Any:
        """The positions of the predicates: from the request, else spaCy's verbs and auxiliaries, as in AllenNLP."""
        words = sentence["words"]
        if blank_words := [word for word in words if not word.strip()]:
            raise UserError(f"the word {blank_words[0]!r} is blank")
        if sentence["predicates"] is not None:
            return sentence["predicates"]
        document = import_module("spacy.tokens").Doc(self.nlp.vocab, words=words)
        for _, pipe in self.nlp.pipeline:
            document = pipe(document)
        return [token.i for token in document if token.pos_ in ("VERB", "AUX")]


def _overrides(config: Any, folder: str) -> Any:
    """The overrides of an archive's configuration that load BERT's config and vocabulary from `folder`."""
    try:
        with open(os.path.join(folder, "config.json"), encoding="utf-8") as stream:
            bert = json.load(stream)
    except (OSError, ValueError) as error:
        raise UserError(
            f"{folder} is not the folder of a BERT model with config.json and vocab.txt ({_reason(error)})"
        ) from error
    readers = [key for key in ("dataset_reader", "validation_dataset_reader") if key in config]
    overrides: Any = {f"{key}.bert_model_name": folder for key in readers}
    overrides["model.bert_model"] = bert
    return overrides


def _batches(tasks: Any) -> Any:
    """Divides tasks (see `Labeller.tag`), sorted by number of word pieces, into batches for the model."""
    batch: Any = []
    for task in tasks:
        if batch and (len(batch) == INSTANCES_AT_ONCE or task[0] * (len(batch) + 1) > PIECES_AT_ONCE):
            yield batch
            batch = []
        batch.append(task)
    if batch:
        yield batch


def _reason(error: BaseException) -> str:
    return str(error) if isinstance(error, UserError) else f"{type(error).__name__}: {error}"


if __name__ == "__main__":
    main()
