"""What may become of a file on its way: damage, other encodings, other columns, huge values."""

from __future__ import annotations

import codecs
import gzip
import zlib
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random

    from fuzz.file_seeds import Case

_INSERTED = (
    b"\0", b"\0" * 50, codecs.BOM_UTF8, codecs.BOM_UTF16_LE, codecs.BOM_UTF16_BE, b'"', b'""', b"'",
    b"\xe9", b"\xff", b"\r", b"\n", b"\r\n", b"\n\n\n", b"\x1a", b"\x01", b"\x0b", b"\x0c", b"\x1c",
    b"\xe2\x80\xa8", b"\xf0\x9f\x8e\xac", b"\xed\xa0\x80", b"::", b":", b",", b";", b"|", b"\t",
    b"\\", b"1:\n", b"PAR1", b"\x1f\x8b", b"{", b"[", b"%s", b"../", b"\x1b[31m",
)  # fmt: skip
_CELLS = (
    b"1e19", b"-1e19", b"9223372036854775808", b"18446744073709551616", b"-9223372036854775809",
    b"1" * 400, b"nan", b"inf", b"-inf", b"null", b"", b" ", b"-1", b"0", b"007", b"+7", b"1e308",
    b"1e-308", b"0x10", b"1_000", b"2004-13-45", b"0000-00-00", b"9999-12-31", b"10000-01-01",
    b"2004-02-30T25:61:61Z", b"2004-01-01T00:00:00+99:99", b'"a,b"', b'"', b"a\nb", b"x" * 140_000,
    b'"' + b"y" * 140_000 + b'"',
    b"user_id", b"timestamp", b"\xc3\xa9", "１２".encode(), b"true", b"{}", b"[" * 3000,
)  # fmt: skip
_SEPARATORS = (b"::", b"\t", b",", b";", b"|")


def mutate(case: Case, chance: Random) -> Case:
    """Give the case with one to four things done to its files; rarely with none."""
    for _ in range(chance.choice((0, 1, 1, 1, 2, 2, 4))):
        name = next(iter(case.files)) if chance.random() < 0.7 else chance.choice(list(case.files))
        content = case.files[name]
        packed = content.startswith(b"\x1f\x8b")
        looks_binary = packed or b"PAR1" in content[:4] or name.endswith((".zip", ".tar"))
        if packed and chance.random() < 0.5:
            # What is inside is mangled, and packed again.
            case = _inside(case, name, chance)
            continue
        kinds = _DAMAGE if looks_binary and chance.random() < 0.9 else _DAMAGE + _TEXT
        change = chance.choice(kinds)
        case = case.with_file(name, change(content, chance), change.__name__.strip("_"))
    return _other_options(case, chance)


def _inside(case: Case, name: str, chance: Random) -> Case:
    try:
        text = gzip.decompress(case.files[name])
    except (OSError, EOFError, zlib.error):
        return case
    change = chance.choice(_DAMAGE + _TEXT)
    content = gzip.compress(change(text, chance), mtime=0)
    return case.with_file(name, content, f"{change.__name__.strip('_')} inside")


def _other_options(case: Case, chance: Random) -> Case:
    if case.reader not in {"interactions", "folder", "several"} or chance.random() < 0.6:
        return case
    name, value = chance.choice(
        (
            ("skip_bad", True),
            ("n_rows", chance.choice((0, 1, 2, 1000))),
            ("time_format", chance.choice(("s", "ns", "ms", "%Y-%m-%d", "%", "%Q", ""))),
            ("rating_above", chance.choice((None, 3.0, -1.0))),
            ("min_profile_length", 2),
            ("user", chance.choice(("user_id", "userId", "", "é", "rating"))),
            ("columns", ["user", "item", "rating", "time"]),
            ("columns", ["user", "user", "item", "time"]),
        )
    )
    case.options.setdefault(name, value)
    return case


def _flip_bits(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[chance.randrange(len(changed))] ^= 1 << chance.randrange(8)
    return bytes(changed)


def _set_bytes(content: bytes, chance: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(chance.choice((1, 2, 8)) if changed else 0):
        changed[chance.randrange(len(changed))] = chance.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(changed)


def _truncate(content: bytes, chance: Random) -> bytes:
    return content[: chance.randrange(len(content) + 1)]


def _cut_out(content: bytes, chance: Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + content[start + chance.choice((1, 2, 8, 100)) :]


def _repeat_part(content: bytes, chance: Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    part = content[start : start + chance.choice((1, 8, 100))]
    return content[:start] + part * chance.choice((2, 5, 300)) + content[start:]


def _insert(content: bytes, chance: Random) -> bytes:
    at = chance.choice((0, len(content), chance.randrange(len(content) + 1)))
    return content[:at] + chance.choice(_INSERTED) + content[at:]


def _noise(content: bytes, chance: Random) -> bytes:
    start = chance.randrange(len(content) + 1)
    return content[:start] + chance.randbytes(chance.choice((1, 4, 64))) + content[start + 4 :]


def _append_itself(content: bytes, chance: Random) -> bytes:
    return content + content[chance.randrange(len(content) + 1) :]


def _nothing_left(content: bytes, chance: Random) -> bytes:
    left = (b"", b"\n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\0", b" \n \n", content[:4])
    return chance.choice(left)


def _replace_cell(content: bytes, chance: Random) -> bytes:
    lines, separator = _split(content)
    at = chance.randrange(len(lines))
    cells = lines[at].split(separator)
    cells[chance.randrange(len(cells))] = chance.choice(_CELLS)
    lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _replace_column(content: bytes, chance: Random) -> bytes:
    lines, separator = _split(content)
    column, value = chance.randrange(4), chance.choice(_CELLS)
    for at in range(1, len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > column:
            cells[column] = value
            lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _swap_columns(content: bytes, chance: Random) -> bytes:
    lines, separator = _split(content)
    one, other = chance.randrange(4), chance.randrange(4)
    for at in range(chance.randrange(2), len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > max(one, other):
            cells[one], cells[other] = cells[other], cells[one]
            lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _double_column(content: bytes, chance: Random) -> bytes:
    lines, separator = _split(content)
    column = chance.randrange(4)
    for at in range(len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > column:
            lines[at] = separator.join([*cells, cells[column]])
    return b"\n".join(lines)


def _shuffle_lines(content: bytes, chance: Random) -> bytes:
    lines = content.split(b"\n")
    chance.shuffle(lines)
    return b"\n".join(lines)


def _double_line(content: bytes, chance: Random) -> bytes:
    lines = content.split(b"\n")
    at = chance.randrange(len(lines))
    return b"\n".join(lines[:at] + [lines[at]] * chance.choice((2, 50)) + lines[at:])


def _other_separator(content: bytes, chance: Random) -> bytes:
    return content.replace(_split(content)[1], chance.choice(_SEPARATORS))


def _other_line_ends(content: bytes, chance: Random) -> bytes:
    return content.replace(b"\n", chance.choice((b"\r\n", b"\r", b"\n\r", b"\n\n", b"\x0b")))


def _open_quote(content: bytes, chance: Random) -> bytes:
    lines, separator = _split(content)
    at = chance.randrange(len(lines))
    lines[at] = b'"' + lines[at].replace(separator, b'"' + separator + chance.choice((b"", b'"')))
    return b"\n".join(lines)


def _other_encoding(content: bytes, chance: Random) -> bytes:
    accents = chance.random() < 0.7
    text = content.decode("utf-8", "replace").replace("u", "é" if accents else "u")
    name = chance.choice(("latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"))
    encoded = text.encode(name, "replace")
    return encoded if chance.random() < 0.7 else encoded[: chance.randrange(len(encoded) + 1)]


def _packed(content: bytes, chance: Random) -> bytes:
    packed = gzip.compress(content, mtime=0)
    return packed if chance.random() < 0.5 else packed[: chance.randrange(len(packed) + 1)]


def _split(content: bytes) -> tuple[list[bytes], bytes]:
    lines = content.split(b"\n")
    return lines, next((mark for mark in _SEPARATORS if mark in lines[0]), b",")


_DAMAGE: tuple[Callable[[bytes, Random], bytes], ...] = (
    _flip_bits, _flip_bits, _set_bytes, _truncate, _cut_out, _repeat_part, _insert, _noise,
    _append_itself, _nothing_left,
)  # fmt: skip
_TEXT: tuple[Callable[[bytes, Random], bytes], ...] = (
    _replace_cell, _replace_cell, _replace_column, _swap_columns, _double_column, _shuffle_lines,
    _double_line, _other_separator, _other_line_ends, _open_quote, _other_encoding, _packed,
)  # fmt: skip
