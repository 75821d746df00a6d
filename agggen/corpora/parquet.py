"""Reads Parquet files of unknown origin; refuses extension types.

Ray Data registers an extension type whose values are pickles, which are loaded on conversion to Python objects: if Ray
Data is imported, an untrusted file could run code. Extension types may be nested in other types.
"""

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq

from agggen.errors import CorpusError


def check_no_extension_types(columns: pa.Schema, source: str) -> None:
    """Raises CorpusError, with the column and the type, if a column contains an extension type."""
    for column in columns:
        for extension in _extension_types(column.type):
            raise CorpusError(
                f"{source}: the column {column.name!r} has values of the extension type {extension.extension_name!r}, "
                "which could run code when they are read; write strings, numbers, lists and structs"
            )


def read_parquet(path: Path) -> pa.Table:
    """Reads a local Parquet file; raises CorpusError if it is missing, is not Parquet, or has an extension type."""
    try:
        check_no_extension_types(pq.read_schema(path), str(path))
        return pq.read_table(path)
    except CorpusError:
        raise
    except (pa.ArrowException, OSError, ValueError, TypeError) as error:  # Ray Data's types raise the last two
        raise CorpusError(f"{path} cannot be read as Parquet: {error}") from error


def columns_of(schema: pa.Schema, names: list[str]) -> pa.Schema:
    """The columns with these names, duplicates included."""
    return pa.schema([column for column in schema if column.name in names])


def _extension_types(data_type: pa.DataType) -> Iterator[pa.BaseExtensionType]:
    if isinstance(data_type, pa.BaseExtensionType):
        yield data_type
    elif pa.types.is_dictionary(data_type):
        yield from _extension_types(data_type.value_type)
    else:
        for number in range(data_type.num_fields):
            yield from _extension_types(data_type.field(number).type)
