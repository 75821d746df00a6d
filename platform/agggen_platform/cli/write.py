"""`agggen generate`, `plan`, `align`, `inspect` and `adjust`: commands that use a bundle."""

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from agggen.errors import ConfigError, RecordError
from agggen.records import Plan, Record
from agggen_platform.cli import console, own_data, records

Settings = Annotated[
    list[str] | None, Argument(metavar="KEY=VALUE", help="Inference settings, such as level=1; see agggen inspect.")
]
_PLANNING_SETTINGS = ("plans", "planner", "ablation", "level", "top_p", "seed")


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def generate(
    bundle: records.BundleAddress = records.SHIPPED_BUNDLE,
    settings: Settings = None,
    input: records.Input = "-",  # noqa: A002 - the option's name
    output: records.Output = "-",
    plan: Annotated[str | None, Option(help="The plan of all texts, followed exactly: '[food] [near area]'.")] = None,
    complete: Annotated[bool, Option(help="Let the model add the predicates that --plan omits.")] = False,
    n_best: Annotated[int, Option(min=1, help="Maximum number of texts per record; rank 1 is the best.")] = 1,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    device: records.Device = "cpu",
) -> None:
    """Write texts for records.

    An output line has the text, its plan, log-probabilities, the span and predicates of each fact, whether the text
    states exactly the record's values (fulfilled), its faults, and predicates that are not in the training data
    (unknown_predicates). Invalid records go to OUTPUT.rejects.jsonl.

    \b
        agggen generate BUNDLE -i records.jsonl -o texts.jsonl
        agggen generate BUNDLE -i records.jsonl --plan '[food near] [area]'
        agggen generate BUNDLE level=1 verify=off -i films.csv --subject title --ignore url
        echo '{"triples": [["Aromi", "food", "English"]]}' | agggen generate BUNDLE
    """
    from agggen.api import load_model

    fixed_plan = None if plan is None else Plan.parse(plan)
    if complete and fixed_plan is None:
        raise ConfigError("--complete needs --plan")
    conflicting_settings = [setting for setting in settings or () if setting.partition("=")[0] in _PLANNING_SETTINGS]
    if fixed_plan is not None and conflicting_settings:
        raise ConfigError(f"{conflicting_settings[0]} cannot be combined with --plan, which already fixes the facts")
    model = load_model(bundle, device)
    config = model.settings(settings or ())
    generator = model.generator
    collector = records.RejectCollector(columns)
    with records.output_lines(output, input) as file:
        for batch in collector.batches(input, lambda record: generator.planner.check(record, fixed_plan, complete)):
            for texts in generator.generate(batch, [fixed_plan] * len(batch), complete, n_best, config):
                collector.unknown_predicates.update(set(texts[0].unknown_predicates))
                for rank, generation in enumerate(texts, start=1):
                    records.write_line(file, generation.as_dict() | ({"rank": rank} if n_best > 1 else {}))
        collector.report(output)


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def plan(
    bundle: records.BundleAddress = records.SHIPPED_BUNDLE,
    settings: Settings = None,
    input: records.Input = "-",  # noqa: A002
    output: records.Output = "-",
    k: Annotated[int, Option("-k", min=1, help="Plans per record, best first.")] = 5,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    device: records.Device = "cpu",
) -> None:
    """Find the most probable plans of records.

    planner=sample draws plans by their probabilities instead. "search" in the output is "exact" for the most probable
    plans, or "beam" for the best plans of a beam search, for records with too many plans; their probabilities are
    unknown.

    \b
        agggen plan BUNDLE -i records.jsonl -k 3
        agggen plan BUNDLE planner=sample top_p=0.9 seed=1 -i records.jsonl -k 3
    """
    from agggen.api import load_model

    model = load_model(bundle, device)
    config = model.settings(settings or ())
    planner = model.generator.planner
    planner.check_level(config.level)
    collector = records.RejectCollector(columns)
    with records.output_lines(output, input) as file:
        for batch in collector.batches(input, lambda record: planner.check(record, config=config)):
            for record, scored_plans in zip(batch, planner.plan(batch, k, config), strict=True):
                collector.unknown_predicates.update(set(planner.encoder.unknown_predicates(record)))
                plans = [{"plan": str(p.plan), "log_probability": p.log_probability} for p in scored_plans]
                records.write_line(file, {"id": record.id, "search": scored_plans[0].search, "plans": plans})
        collector.report(output)


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def align(
    bundle: records.BundleAddress = records.SHIPPED_BUNDLE,
    input: records.Input = "-",  # noqa: A002
    output: records.Output = "-",
    run_archives: records.RunArchives = False,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
    device: records.Device = "cpu",
) -> None:
    """Find the triples that each fact of a text states.

    The texts are the records' references; the alignment is the most probable one (Viterbi). References without facts
    are segmented as the training texts were or, if the training corpus had facts, with the shipped tagger.

    \b
        agggen align BUNDLE -i records.jsonl
    """
    from agggen.api import load_model

    model = load_model(bundle, device)
    generator, segmenter = model.generator, model.bundle.fact_segmenter(run_archives)

    def check(record: Record) -> None:
        generator.planner.check(record)
        if not record.references:
            raise RecordError(f"record {record.id!r} has no reference text to align")

    collector = records.RejectCollector(columns)
    with records.output_lines(output, input) as file:
        for batch in collector.batches(input, check):
            texts = [(record, number, text) for record in batch for number, text in enumerate(record.references)]
            segmented = iter(segmenter.segment([text.text for _, _, text in texts if text.facts is None]))
            facts = [
                next(segmented) if text.facts is None else tuple(fact.text for fact in text.facts)
                for _, _, text in texts
            ]
            alignments = generator.align([record for record, _, _ in texts], facts)
            for (_, number, _), alignment in zip(texts, alignments, strict=True):
                fields = alignment.as_dict()
                records.write_line(file, {"id": fields.pop("id"), "reference": number} | fields)
        collector.report(output)


def inspect(bundle: records.BundleAddress = records.SHIPPED_BUNDLE) -> None:
    """Check the hashes of a bundle and describe its content."""
    from agggen.bundle import describe_bundle, fingerprint, load_bundle
    from agggen.config import flatten
    from agggen.training.data import bundle_folder

    folder = bundle_folder(bundle)
    description = describe_bundle(folder)
    loaded_bundle = load_bundle(folder)
    parameters = sum(p.numel() for p in loaded_bundle.model.parameters())
    vocabulary, lexicon = loaded_bundle.encoder.vocabulary, loaded_bundle.lexicon
    rows = [
        ("fingerprint", fingerprint(folder)),
        ("parameters", f"{parameters:,}"),
        ("vocabulary", f"{len(vocabulary):,} words, {vocabulary.n_output:,} of them in the output vocabulary"),
        ("predicates", f"{len(loaded_bundle.encoder.predicates) - 1:,}"),
        ("predicate names", ", ".join(loaded_bundle.encoder.predicates[1:])),
        ("wordings of values", f"{sum(map(len, lexicon.variants.values())):,} of {len(lexicon.variants):,} values"),
        ("truth values of", ", ".join(lexicon.booleans)),
        ("templates", f"{len(lexicon.templates):,}"),
        ("phrases", f"{len(lexicon.phrases):,}"),
        ("facts", loaded_bundle.facts),
        ("new texts are segmented by", loaded_bundle.segmenter.source),
    ]
    rows += [(f"model.{key}", value) for key, value in description["model"].items()]
    rows += [(f"inference.{key}", str(value)) for key, value in flatten(loaded_bundle.inference).items()]
    rows += [(key, f"{value:.4f}") for key, value in description["metrics"].items()]
    rows += [(f"source {key}", value) for key, value in description["sources"].items()]
    console.print_table(("field", "value"), rows)


def adjust(
    bundle: records.BundleAddress,
    output: Annotated[Path, Option("--output", "-o", help="The new bundle's folder, which must not exist.")],
    settings: Settings = None,
    wordings: Annotated[
        Path | None, Option(metavar="FILE", help='More wordings of values, JSON: {"United_States": ["the States"]}.')
    ] = None,
    phrases: Annotated[
        str | None,
        Option(metavar="FILE|CORPUS", help="Sentences for predicates: lines PREDICATE<tab>SENTENCE, or rel2text."),
    ] = None,
) -> None:
    """Write a bundle with other inference settings.

    The weights stay the same. With --wordings, the model may write these wordings of values, and the strict check
    accepts them. With --phrases, a triple that the model cannot express, for example because its predicate is unknown,
    is stated by such a sentence instead of a plain clause. The new bundle has another fingerprint; its sources include
    BUNDLE's.

    \b
        agggen adjust BUNDLE --wordings wordings.json -o reworded
        agggen adjust BUNDLE --phrases rel2text -o with_phrases
        agggen adjust BUNDLE level=2 plan_weight=0.5 -o tuned
    """
    from agggen.bundle import save_bundle
    from agggen.training.data import bundle_folder
    from agggen.verification.lexicon import read_wordings
    from agggen_platform.adjusting import adjusted_bundle

    if not settings and wordings is None and phrases is None:
        raise ConfigError("nothing to adjust; give settings (level=2), --wordings FILE or --phrases FILE")
    variants = read_wordings(wordings) if wordings else None
    save_bundle(output, adjusted_bundle(bundle_folder(bundle), settings or (), variants, phrases))
    console.echo(str(output))
