"""Parquet files that others may have written: only plain values are made into Python objects.

A file may say that its values are of an extension type, at any depth. Ray Data registers one whose values are pickles,
loaded as soon as they become Python objects: where Ray Data is imported, a stranger's file would run code.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.errors import CorpusError


def check_plain(columns: pa.Schema, where: str) -> None:
    """Passes if no column, and nothing inside one, is of an extension type.

    Args:
        columns: those whose values will be read.
        where: the file is.

    Raises:
        CorpusError: names the type.
    """
    for field in columns:
        for extension in _extensions(field.type):
            raise CorpusError(
                f"{where}: the column {field.name!r} holds values of the extension type {extension.extension_name!r}, "
                "which could run code when they are read; write strings, numbers, lists and structs"
            )


def read_plain(path: Path) -> pa.Table:
    """All of a Parquet file of this machine.

    Raises:
        CorpusError: it is missing, no Parquet, or has values that could run code.
    """
    try:
        check_plain(pq.read_schema(path), str(path))
        return pq.read_table(path)
    except CorpusError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:  # ValueError and TypeError by Ray Data's types
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def columns_of(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The columns of these names, all of them where a name occurs twice."""
    return pa.schema([field for field in schema if field.name in names])


def _extensions(kind: pa.DataType) -> Iterator[pa.BaseExtensionType]:
    if isinstance(kind, pa.BaseExtensionType):
        yield kind
    elif pa.types.is_dictionary(kind):
        yield from _extensions(kind.value_type)
    else:
        for number in range(kind.num_fields):
            yield from _extensions(kind.field(number).type)
