"""`agggen ask`: has an endpoint write texts for records."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Annotated, Any, Literal

from typer import Argument, Option

from agggen_platform.cli import own_data
from agggen_platform.cli.records import Input, Output, Rejected, output_lines, write_line


@own_data.with_columns(*own_data.TABLE)
def ask(
    url: Annotated[str, Argument(metavar="URL", help="The endpoint's address, like http://127.0.0.1:8000.")],
    input: Input = "-",  # noqa: A002 - the option's name
    output: Output = "-",
    plan: Annotated[str | None, Option(help="A plan for every record, followed exactly.")] = None,
    complete: Annotated[bool, Option(help="Let the model add the predicates that --plan omits.")] = False,
    level: Annotated[int | None, Option(min=1, help="The largest number of triples in one fact.")] = None,
    n_best: Annotated[int, Option(min=1, help="The most texts per record, ranked, best first.")] = 1,
    verify: Annotated[
        Literal["strict", "off"] | None, Option(help="strict: all values in full, no faults; off: no constraints.")
    ] = None,
    deadline: Annotated[float, Option(min=0.001, help="Seconds to wait for the next text, retries included.")] = 300.0,
    columns: own_data.Chosen = own_data.NONE,
) -> None:
    """Have an endpoint write texts for records.

    The endpoint is that of `agggen serve`. Output and rejects are as for `agggen generate`. Failed requests are
    retried. If the endpoint requires an API key, set AGGGEN_API_KEY.

    \b
        agggen ask http://127.0.0.1:8000 -i records.jsonl -o texts.jsonl
        echo '{"triples": [["Aromi", "food", "English"]]}' | agggen ask http://127.0.0.1:8000
    """
    from agggen.errors import ConfigError
    from agggen.records import Plan
    from agggen_platform.client import Client

    human = {} if plan is None else {"plan": str(Plan.parse(plan))}
    if complete and not human:
        raise ConfigError("--complete needs --plan")
    if human and level is not None:
        raise ConfigError("--level cannot be combined with --plan, which already fixes the facts")
    options: dict[str, Any] = {"n_best": n_best, "verify": verify, "complete": complete or None, "level": level}
    rejected = Rejected(columns)

    def records() -> Iterator[dict[str, Any]]:
        for block in rejected.blocks(input, lambda record: None):
            for record in block:
                yield {"id": record.id, "triples": record.as_dict()["triples"], **human}

    with output_lines(output, input) as file, Client(url, deadline=deadline) as client:
        for answer in client.stream(records(), **{k: v for k, v in options.items() if v is not None}):
            if answer["status"] == "error":
                rejected.refuse(input, answer["id"], answer["error"]["detail"])
                continue
            rejected.unknown.update(set(answer["texts"][0].get("unknown_predicates", ())))
            for rank, written in enumerate(answer["texts"], start=1):
                write_line(file, {"id": answer["id"], **written} | ({"rank": rank} if n_best > 1 else {}))
        rejected.report(output)
