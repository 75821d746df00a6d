"""Opens remote AllenNLP archives: ``http(s)://`` as the library does, and ``s3://``.

Credentials, region and endpoint of S3 come from the environment (``AWS_ACCESS_KEY_ID``, ``AWS_ENDPOINT_URL``, ...).
"""

from __future__ import annotations

from agggen.facts.allennlp.archives import Remote, open_http, shown
from agggen.facts.allennlp.errors import AllenNLPError


def open_remote(address: str, start: int) -> Remote:
    """Opens `address` at the byte `start`; for ``agggen.facts.allennlp.source.AllenNLPFrames``.

    Raises:
        AllenNLPError: there is no such object, or the address has another scheme.
        OSError: trying again may help.
    """
    if not address.startswith("s3://"):
        return open_http(address, start)
    import pyarrow as pa
    import pyarrow.fs as pafs

    try:
        files, path = pafs.FileSystem.from_uri(address)
        info = files.get_file_info(path)
    except pa.ArrowInvalid as error:
        raise AllenNLPError(f"{shown(address)} is no address of an object, s3://bucket/key ({error})") from error
    if info.type != pafs.FileType.File:
        raise AllenNLPError(f"there is no object {shown(address)}, or it may not be read")
    stream = files.open_input_file(path)
    begin = start if start < info.size else 0
    stream.seek(begin)
    return Remote(stream, begin, info.size, f"{info.size}-{info.mtime_ns}")
