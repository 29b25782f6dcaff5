"""The help of every command as plain text: ``python -m checks.help`` writes ``tests/cli/help.txt``.

The text has a fixed width and does not depend on the versions of typer and rich.
"""

from __future__ import annotations

import re
from textwrap import fill
from typing import Any

from checks.site import ROOT, commands

FILE = ROOT / "tests" / "cli" / "help.txt"
_WIDTH = 100
_INDENT = 28


def page() -> str:
    """Return the help of all commands."""
    return "\n\n".join(_command(words, command) for words, command in commands()) + "\n"


def _command(words: tuple[str, ...], command: Any) -> str:
    parameters = [each for each in command.params if each.name != "help"]
    arguments = [each.name.upper() for each in parameters if each.param_type_name == "argument"]
    text = re.sub(r"\[/?bold\]", "", command.help or "").strip()
    paragraphs = [fill(" ".join(each.split()), _WIDTH) for each in re.split(r"\n\s*\n", text)]
    rows = [_row(each) for each in parameters]
    return "\n".join([" ".join(["$ surerec", *words, *arguments]), *paragraphs, *rows])


def _row(parameter: Any) -> str:
    name = ", ".join((*parameter.opts, *parameter.secondary_opts))
    if parameter.param_type_name == "argument":
        name = parameter.name.upper()
    default = parameter.default
    has_default = isinstance(default, (int, float, str)) and not isinstance(default, bool)
    text = f"{parameter.help}{f' [default: {default}]' if has_default else ''}"
    indent = " " * _INDENT
    return fill(f"  {name:<{_INDENT - 4}}  {text}", _WIDTH, subsequent_indent=indent)


if __name__ == "__main__":
    FILE.write_text(page(), encoding="utf-8")
