"""`agggen ask`: requests texts for records from an endpoint."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from typer import Argument, Option

from agggen_platform.cli import own_data
from agggen_platform.cli.records import Input, Output, RejectCollector, output_lines, write_line


@own_data.with_column_options(*own_data.RECORD_COLUMNS)
def ask(
    url: Annotated[str, Argument(metavar="URL", help="The endpoint's address, like http://127.0.0.1:8000.")],
    input: Input = "-",  # noqa: A002 - the option's name
    output: Output = "-",
    plan: Annotated[str | None, Option(help="The plan of all texts, followed exactly.")] = None,
    complete: Annotated[bool, Option(help="Let the model add the predicates that --plan omits.")] = False,
    level: Annotated[int | None, Option(min=1, help="Maximum number of triples in a fact.")] = None,
    n_best: Annotated[int, Option(min=1, help="Maximum number of texts per record, best first.")] = 1,
    verify: Annotated[
        Literal["strict", "off"] | None, Option(help="strict: all values in full, no fault; off: no constraints.")
    ] = None,
    deadline: Annotated[float, Option(min=0.001, help="Seconds to wait for the next text, with retries.")] = 300.0,
    columns: own_data.ColumnValues = own_data.NO_COLUMNS,
) -> None:
    """Request texts for records from an endpoint (`agggen serve`).

    Output and rejects are as for `agggen generate`. Failed requests are retried. If the endpoint requires an API key,
    set AGGGEN_API_KEY.

    \b
        agggen ask http://127.0.0.1:8000 -i records.jsonl -o texts.jsonl
        echo '{"triples": [["Aromi", "food", "English"]]}' | agggen ask http://127.0.0.1:8000
    """
    from agggen.errors import ConfigError
    from agggen.records import Plan
    from agggen_platform.client import Client

    plan_field = {} if plan is None else {"plan": str(Plan.parse(plan))}
    if complete and not plan_field:
        raise ConfigError("--complete needs --plan")
    if plan_field and level is not None:
        raise ConfigError("--level cannot be combined with --plan, which already fixes the facts")
    options: dict[str, Any] = {"n_best": n_best, "verify": verify, "complete": complete or None, "level": level}
    options = {name: value for name, value in options.items() if value is not None}
    collector = RejectCollector(columns)

    def request_records() -> Iterator[dict[str, Any]]:
        for batch in collector.batches(input, lambda record: None):
            for record in batch:
                yield {"id": record.id, "triples": record.as_dict()["triples"], **plan_field}

    with output_lines(output, input) as file, Client(url, deadline=deadline) as client:
        for answer in client.stream(request_records(), **options):
            if answer["status"] == "error":
                collector.reject(input, answer["id"], answer["error"]["detail"])
                continue
            collector.unknown_predicates.update(set(answer["texts"][0].get("unknown_predicates", ())))
            for rank, text in enumerate(answer["texts"], start=1):
                write_line(file, {"id": answer["id"], **text} | ({"rank": rank} if n_best > 1 else {}))
        collector.report(output)
