"""Generated pages of the documentation site (a hook of mkdocs).

They are the reference of every public name, the options of the command line, the notebooks, and
files outside of ``docs``.
"""

from __future__ import annotations

import ast
import json
import re
from pathlib import Path
from typing import TYPE_CHECKING, Any

from typer.main import get_command

from surerec.cli import app

if TYPE_CHECKING:
    from collections.abc import Iterator

    from mkdocs.config.defaults import MkDocsConfig
    from mkdocs.structure.files import Files
    from mkdocs.structure.pages import Page

ROOT = Path(__file__).parents[1]
_SOURCE = ROOT / "src" / "surerec"
_BESIDE = {
    "CONTRIBUTING.md": "contributing.md",
    "SECURITY.md": "security.md",
    "CHANGELOG.md": "changelog.md",
    "benchmarks/README.md": "benchmarks.md",
}
_COMMAND_LINE = "reference/command-line.md"
_WRITTEN = [f"reference/{name}.md" for name in ("options", "support", "model-folder", "glossary")]


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Add the reference pages to the navigation."""
    for entry in config.nav or []:
        if "Reference" in entry:
            pages = [f"reference/{name}.md" for name in public_modules()]
            entry["Reference"] = [_COMMAND_LINE, *_WRITTEN, *pages]
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the generated pages."""
    from mkdocs.structure.files import File  # noqa: PLC0415  # not installed for the tests

    for name, content in generated_pages():
        files.append(File.generated(config, name, content=content))
    return files


def on_page_markdown(markdown: str, page: Page, **_: Any) -> str:
    """Rewrite links to files outside of ``docs`` to their pages."""
    up = "../" * page.file.src_uri.count("/")
    for file, made in _BESIDE.items():
        markdown = markdown.replace(f"]({up}../{file}", f"]({up}{made}")
    return markdown


def generated_pages() -> Iterator[tuple[str, str]]:
    """Yield the address and text of each generated page."""
    for file, made in _BESIDE.items():
        text = (ROOT / file).read_text(encoding="utf-8")
        text = text.replace("](docs/", "](").replace("](../docs/", "](")
        text = re.sub(r"\[([^]]+)\]\(LICENSE\)", r"\1", text)
        for other, target in _BESIDE.items():
            text = text.replace(f"]({other}", f"]({target}")
        yield made, text
    for name, names in public_modules().items():
        yield f"reference/{name}.md", _reference(name, names)
    yield _COMMAND_LINE, _command_line()
    for path in sorted((ROOT / "notebooks").glob("*.ipynb")):
        yield f"notebooks/{path.stem}.md", as_markdown(path)


def public_modules() -> dict[str, list[str]]:
    """Return the public names of every public module."""
    found = {"surerec": _names(_SOURCE / "__init__.py")}
    for path in sorted(_SOURCE.glob("*/__init__.py")):
        if not path.parent.name.startswith("_") and path.parent.name != "cli":
            found[f"surerec.{path.parent.name}"] = _names(path)
    found["surerec.errors"] = _names(_SOURCE / "errors.py")
    return found


def _names(path: Path) -> list[str]:
    """Return ``__all__`` of a module, or its classes, without importing it."""
    body = ast.parse(path.read_text(encoding="utf-8")).body
    for node in body:
        if isinstance(node, ast.Assign) and ast.unparse(node.targets[0]) == "__all__":
            return [str(name) for name in ast.literal_eval(node.value)]
    return [node.name for node in body if isinstance(node, ast.ClassDef)]


def _reference(module: str, names: list[str]) -> str:
    path = _SOURCE / module.partition(".")[2].replace(".", "/")
    file = path / "__init__.py" if path.is_dir() else path.with_suffix(".py")
    about = ast.get_docstring(ast.parse(file.read_text(encoding="utf-8"))) or ""
    lines = [f"# {module}", "", about, ""]
    if module == "surerec":  # re-exports
        lines += ["| name | described in |", "|---|---|"]
        lines += [f"| `sr.{name}` | {_home(name)} |" for name in names]
        return "\n".join(lines) + "\n"
    for name in names:
        options = "    options:\n      heading_level: 3\n      show_root_heading: false\n"
        lines += [f"## `{name}` {{ #{module}.{name} }}", "", f"::: {module}.{name}", options]
    return "\n".join(lines) + "\n"


def _home(name: str) -> str:
    """Return a link to the description of a re-exported name."""
    modules = public_modules()
    if f"surerec.{name}" in modules:
        return f"[surerec.{name}](surerec.{name}.md)"
    for module, names in modules.items():
        if module != "surerec" and name in names:
            return f"[{module}.{name}]({module}.md#{module}.{name})"
    return "the version"


def _command_line() -> str:
    lines = ["# Command line", "", "The output of `surerec COMMAND --help` for all commands.", ""]
    for words, command in commands():
        lines += [f"## surerec {' '.join(words)}", "", _prose(command.help or ""), ""]
        rows = [_row(each) for each in command.params if each.name not in ("help", None)]
        if rows:
            lines += ["| option | description | default |", "|---|---|---|", *rows, ""]
    return "\n".join(lines)


def commands() -> Iterator[tuple[tuple[str, ...], Any]]:
    """Yield every command with the words that call it."""
    every: Any = get_command(app)
    for name, command in every.commands.items():
        below = getattr(command, "commands", {})
        if not below or command.invoke_without_command:
            yield (name,), command
        for word, each in below.items():
            yield (name, word), each


def _prose(text: str) -> str:
    """Convert rich markup to Markdown, and examples to code."""
    paragraphs = []
    for paragraph in re.split(r"\n\s*\n", text.strip()):
        one = " ".join(paragraph.split()).replace("[bold]", "**").replace("[/bold]", "**")
        label, mark, rest = one.partition("** surerec ")
        if one.startswith("surerec "):
            one = f"```sh\n{one}\n```"
        elif mark:
            one = f"{label}**\n\n```sh\nsurerec {rest}\n```"
        paragraphs.append(one)
    return "\n\n".join(paragraphs)


def _row(parameter: Any) -> str:
    shown = ", ".join(f"`{name}`" for name in (*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        shown = f"`{parameter.name.upper()}`"
    default = parameter.default
    plain = isinstance(default, (int, float, str)) and default not in ("", False, True)
    text = (getattr(parameter, "help", "") or "").replace("|", r"\|")
    return f"| {shown} | {text} | {f'`{default}`' if plain else ''} |"


def as_markdown(path: Path) -> str:
    """Return the cells of a notebook as a page, with their outputs."""
    parts = []
    for cell in json.loads(path.read_text(encoding="utf-8"))["cells"]:
        text = "".join(cell["source"])
        parts.append(text if cell["cell_type"] == "markdown" else f"```python\n{text}\n```")
        for output in cell.get("outputs", []):
            data = output.get("data", {})
            shown = "".join(output.get("text") or data["text/plain"]).rstrip()
            image = f"![{shown}](data:image/png;base64,{data.get('image/png')})"
            parts.append(image if "image/png" in data else f"```text\n{shown}\n```")
    return "\n\n".join(parts) + "\n"
