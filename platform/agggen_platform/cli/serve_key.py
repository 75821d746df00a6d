"""`agggen serve-key`: creates an API key for the endpoint."""

from __future__ import annotations

from datetime import datetime
from pathlib import Path
from typing import Annotated

import typer

from agggen_platform.cli import console


def serve_key(
    name: Annotated[str, typer.Argument(metavar="NAME", help="The owner of the key; it is in logs and limits.")],
    file: Annotated[
        Path | None,
        typer.Option("--file", help="Add the key's line to this file, which is created with mode 0600."),
    ] = None,
    until: Annotated[
        datetime | None, typer.Option(formats=["%Y-%m-%d"], help="The key's last day (UTC). [default: none]")
    ] = None,
) -> None:
    """Create a random key and print it. Only its hash is stored.

    \b
        agggen serve-key alice                             # prints the key, and its line for the file of keys
        agggen serve-key alice --file keys.txt             # adds the line to the file and prints the key
        agggen serve BUNDLE security.keys_file=keys.txt    # requires keys; new ones are read within a second
    """
    from agggen_platform.serving.keys import add_key, new_key

    key, line = new_key(name, until.date() if until else None)
    if file is not None:
        add_key(file, line)
    console.say(key)
    if file is None:
        console.say(str(line))
