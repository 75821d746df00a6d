"""Reads the lines of a file or stream with bounded memory."""

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import BinaryIO, Literal

from agggen.corpora.rejects import Reject
from agggen.errors import CorpusError

MAX_LINE_BYTES = 10_000_000  # longer lines are rejected without being loaded into memory

DecodeErrors = Literal["raise", "reject", "keep"]
"""What happens to a line that is not UTF-8; ``keep`` decodes invalid bytes as surrogates (``surrogateescape``)."""
Source = Path | str | BinaryIO  # a path, or an open binary stream (standard input)


@contextmanager
def open_source(source: Source, name: str | None = None) -> Iterator[tuple[BinaryIO, str]]:
    """The binary stream of `source`, which stays open if it is a stream, and its name; CorpusError if not readable."""
    if not isinstance(source, Path | str):
        yield source, name or str(getattr(source, "name", "<stream>"))
        return
    try:
        stream = Path(source).open("rb")  # noqa: SIM115 - closed by the `with` below; only opening may fail here
    except OSError as error:
        raise CorpusError(f"cannot read {source}: {error.strerror or error}") from error
    with stream:
        yield stream, name or str(source)


def read_lines(
    stream: BinaryIO, name: str, decode_errors: DecodeErrors = "raise", first_line: int = 1
) -> Iterator[tuple[int, str] | Reject]:
    """Yields (line number, text with its line end), or a Reject for a line with NUL bytes or over `MAX_LINE_BYTES`.

    `first_line` is the line number of the stream's first line in its file. CorpusError is raised if the stream is
    empty, or a line is not UTF-8 and `decode_errors` is ``raise``.
    """
    number = first_line - 1
    while line := stream.readline(MAX_LINE_BYTES + 1):
        number += 1
        if len(line) > MAX_LINE_BYTES and not line.endswith(b"\n"):
            while (remainder := stream.readline(1 << 20)) and not remainder.endswith(b"\n"):
                pass
            yield Reject(name, number, None, f"the line is longer than {MAX_LINE_BYTES:,} bytes")
            continue
        if number == 1:
            line = line.removeprefix(b"\xef\xbb\xbf")
        if b"\0" in line:
            yield Reject(name, number, None, f"the line contains a NUL byte at position {line.index(0) + 1}")
            continue
        try:
            text = line.decode("utf-8", "surrogateescape" if decode_errors == "keep" else "strict")
        except UnicodeDecodeError as error:
            problem = f"not UTF-8 (byte 0x{line[error.start]:02x} at position {error.start + 1})"
            if decode_errors == "raise":
                raise CorpusError(f"{name}, line {number}: {problem}; save the file as UTF-8") from error
            yield Reject(name, number, None, problem)
            continue
        yield number, text
    if number < first_line:
        raise CorpusError(f"{name} is empty")
