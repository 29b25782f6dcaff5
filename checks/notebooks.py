"""Run the notebooks and write what they put out: ``python -m checks.notebooks``.

Outputs are text and static images, which every forge shows.
"""

from __future__ import annotations

import ast
import json
from base64 import b64encode
from contextlib import chdir, redirect_stdout
from io import BytesIO, StringIO
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import TYPE_CHECKING, Any

import polars as pl

if TYPE_CHECKING:
    from collections.abc import Iterator

_TABLES: dict[str, Any] = {
    "tbl_width_chars": 110, "tbl_cols": -1, "tbl_rows": 20, "fmt_str_lengths": 60,
}  # fmt: skip
NOTEBOOKS = sorted((Path(__file__).parents[1] / "notebooks").glob("*.ipynb"))


def code_cells(path: Path) -> list[dict[str, Any]]:
    """Return the code cells of a notebook."""
    cells = json.loads(path.read_text(encoding="utf-8"))["cells"]
    return [cell for cell in cells if cell["cell_type"] == "code"]


def outputs(path: Path) -> Iterator[list[dict[str, Any]]]:
    """Run a notebook, and yield the outputs of each code cell in its format."""
    names: dict[str, Any] = {}
    for number, cell in enumerate(code_cells(path), start=1):
        body = ast.parse("".join(cell["source"])).body
        last = body.pop() if isinstance(body[-1], ast.Expr) else None
        printed = StringIO()
        with redirect_stdout(printed), pl.Config(**_TABLES):
            exec(compile(ast.Module(body, []), "cell", "exec"), names)  # noqa: S102  # our own
            value = None if last is None else eval(ast.unparse(last), names)  # noqa: S307
            data = {} if value is None else _shown(value)
        found: list[dict[str, Any]] = []
        if text := printed.getvalue():
            found.append({"name": "stdout", "output_type": "stream", "text": _lines(text)})
        if data:
            result = {"execution_count": number, "metadata": {}, "output_type": "execute_result"}
            found.append({"data": data, **result})
        yield found


def _shown(value: Any) -> dict[str, Any]:
    """Return the text of a value, and the image of a figure."""
    if not hasattr(value, "savefig"):
        return {"text/plain": _lines(repr(value))}
    image = BytesIO()
    value.savefig(image, format="png", dpi=80, metadata={"Software": None})
    return {"image/png": b64encode(image.getvalue()).decode(), "text/plain": ["a figure"]}


def _lines(text: str) -> list[str]:
    return text.splitlines(keepends=True)


def write(path: Path) -> None:
    """Run a notebook, and write it with its outputs."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    cells = [cell for cell in notebook["cells"] if cell["cell_type"] == "code"]
    for number, (cell, found) in enumerate(zip(cells, outputs(path), strict=True), start=1):
        cell.update(execution_count=number, outputs=found)
    text = json.dumps(notebook, indent=1, ensure_ascii=False, sort_keys=True)
    path.write_text(text + "\n", encoding="utf-8")


if __name__ == "__main__":
    with TemporaryDirectory() as place, chdir(place):  # notebooks save models
        for each in NOTEBOOKS:
            write(each)
