"""`agggen serve-key`: a new API key of the endpoint."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console


def serve_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="Whose key it is; logs and limits go by it.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Add the key's line to this file, made with mode 0600 where it is not."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The key's last day (UTC). [default: none]")
    ] = None,
) -> None:
    """Make a random key and print it, this once: only its hash is kept.

    \b
        agggen serve-key alice                             # prints the key, and its line for the file of keys
        agggen serve-key alice --file keys.txt             # adds the line to the file and prints the key
        agggen serve BUNDLE security.keys_file=keys.txt    # asks for keys; new ones are read within a second
    """
    from agggen_platform.serving.keys import add_key, new_key

    key, line = new_key(name, until.date() if until else None)
    if file is not None:
        add_key(file, line)
    console.say(key)
    if file is None:
        console.say(str(line))
