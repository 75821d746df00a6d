"""Runs the code of a notebook in this process: `python -m tests.notebooks FILE...` writes the outputs into the files.

As in Jupyter, the value of a cell's last expression is an output, as HTML too if it has ``_repr_html_``.
"""

import ast
import io
import json
import sys
from contextlib import redirect_stdout
from pathlib import Path
from typing import Any


def run(path: Path) -> dict[str, Any]:
    """Runs a notebook in the working directory; returns it with the outputs of this run."""
    book: dict[str, Any] = json.loads(path.read_text(encoding="utf-8"))
    namespace: dict[str, Any] = {"__name__": "__main__"}
    count = 0
    for cell in book["cells"]:
        if cell["cell_type"] == "code":
            count += 1
            cell["execution_count"] = count
            cell["outputs"] = _outputs("".join(cell["source"]), f"{path.name}, cell {count}", namespace)
    return book


def _outputs(source: str, filename: str, namespace: dict[str, Any]) -> list[dict[str, Any]]:
    tree = ast.parse(source, filename)
    last = tree.body.pop() if isinstance(tree.body[-1], ast.Expr) else None
    outputs, value = [], None
    with redirect_stdout(io.StringIO()) as printed:
        exec(compile(tree, filename, "exec"), namespace)
        if isinstance(last, ast.Expr):
            value = eval(compile(ast.Expression(last.value), filename, "eval"), namespace)
    if printed.getvalue():
        outputs.append(
            {"name": "stdout", "output_type": "stream", "text": printed.getvalue().splitlines(keepends=True)}
        )
    if value is not None:
        data = {"text/plain": repr(value).splitlines(keepends=True)}
        if hasattr(value, "_repr_html_"):
            data["text/html"] = value._repr_html_().splitlines(keepends=True)
        outputs.append({"data": data, "execution_count": None, "metadata": {}, "output_type": "execute_result"})
    return outputs


if __name__ == "__main__":
    for argument in sys.argv[1:]:
        book = run(Path(argument).absolute())
        Path(argument).write_text(json.dumps(book, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
