"""Mutations of files: damage, other encodings, other columns, huge values."""

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


def mutate(case: Case, rng: Random) -> Case:
    """Return a case with up to four mutations of its files."""
    for _ in range(rng.choice((0, 1, 1, 1, 2, 2, 4))):
        name = next(iter(case.files)) if rng.random() < 0.7 else rng.choice(list(case.files))
        content = case.files[name]
        packed = content.startswith(b"\x1f\x8b")
        looks_binary = packed or b"PAR1" in content[:4] or name.endswith((".zip", ".tar"))
        if packed and rng.random() < 0.5:
            # Mutate the content, and compress it again.
            case = _inside(case, name, rng)
            continue
        kinds = _DAMAGE if looks_binary and rng.random() < 0.9 else _DAMAGE + _TEXT
        change = rng.choice(kinds)
        case = case.with_file(name, change(content, rng), change.__name__.strip("_"))
    return _other_options(case, rng)


def _inside(case: Case, name: str, rng: Random) -> Case:
    try:
        text = gzip.decompress(case.files[name])
    except (OSError, EOFError, zlib.error):
        return case
    change = rng.choice(_DAMAGE + _TEXT)
    content = gzip.compress(change(text, rng), mtime=0)
    return case.with_file(name, content, f"{change.__name__.strip('_')} inside")


def _other_options(case: Case, rng: Random) -> Case:
    if case.reader not in {"interactions", "folder", "several"} or rng.random() < 0.6:
        return case
    name, value = rng.choice(
        (
            ("skip_bad", True),
            ("n_rows", rng.choice((0, 1, 2, 1000))),
            ("time_format", rng.choice(("s", "ns", "ms", "%Y-%m-%d", "%", "%Q", ""))),
            ("rating_above", rng.choice((None, 3.0, -1.0))),
            ("min_profile_length", 2),
            ("user", rng.choice(("user_id", "userId", "", "é", "rating"))),
            ("columns", ["user", "item", "rating", "time"]),
            ("columns", ["user", "user", "item", "time"]),
        )
    )
    case.options.setdefault(name, value)
    return case


def _flip_bits(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 1, 2, 8, 64)) if changed else 0):
        changed[rng.randrange(len(changed))] ^= 1 << rng.randrange(8)
    return bytes(changed)


def _set_bytes(content: bytes, rng: Random) -> bytes:
    changed = bytearray(content)
    for _ in range(rng.choice((1, 2, 8)) if changed else 0):
        changed[rng.randrange(len(changed))] = rng.choice((0, 1, 0x7F, 0x80, 0xFF))
    return bytes(changed)


def _truncate(content: bytes, rng: Random) -> bytes:
    return content[: rng.randrange(len(content) + 1)]


def _cut_out(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + content[start + rng.choice((1, 2, 8, 100)) :]


def _repeat_part(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    part = content[start : start + rng.choice((1, 8, 100))]
    return content[:start] + part * rng.choice((2, 5, 300)) + content[start:]


def _insert(content: bytes, rng: Random) -> bytes:
    at = rng.choice((0, len(content), rng.randrange(len(content) + 1)))
    return content[:at] + rng.choice(_INSERTED) + content[at:]


def _noise(content: bytes, rng: Random) -> bytes:
    start = rng.randrange(len(content) + 1)
    return content[:start] + rng.randbytes(rng.choice((1, 4, 64))) + content[start + 4 :]


def _append_itself(content: bytes, rng: Random) -> bytes:
    return content + content[rng.randrange(len(content) + 1) :]


def _nothing_left(content: bytes, rng: Random) -> bytes:
    left = (b"", b"\n", codecs.BOM_UTF8, codecs.BOM_UTF16_LE, b"\0", b" \n \n", content[:4])
    return rng.choice(left)


def _replace_cell(content: bytes, rng: Random) -> bytes:
    lines, separator = _split(content)
    at = rng.randrange(len(lines))
    cells = lines[at].split(separator)
    cells[rng.randrange(len(cells))] = rng.choice(_CELLS)
    lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _replace_column(content: bytes, rng: Random) -> bytes:
    lines, separator = _split(content)
    column, value = rng.randrange(4), rng.choice(_CELLS)
    for at in range(1, len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > column:
            cells[column] = value
            lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _swap_columns(content: bytes, rng: Random) -> bytes:
    lines, separator = _split(content)
    one, other = rng.randrange(4), rng.randrange(4)
    for at in range(rng.randrange(2), len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > max(one, other):
            cells[one], cells[other] = cells[other], cells[one]
            lines[at] = separator.join(cells)
    return b"\n".join(lines)


def _double_column(content: bytes, rng: Random) -> bytes:
    lines, separator = _split(content)
    column = rng.randrange(4)
    for at in range(len(lines)):
        cells = lines[at].split(separator)
        if len(cells) > column:
            lines[at] = separator.join([*cells, cells[column]])
    return b"\n".join(lines)


def _shuffle_lines(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    rng.shuffle(lines)
    return b"\n".join(lines)


def _double_line(content: bytes, rng: Random) -> bytes:
    lines = content.split(b"\n")
    at = rng.randrange(len(lines))
    return b"\n".join(lines[:at] + [lines[at]] * rng.choice((2, 50)) + lines[at:])


def _other_separator(content: bytes, rng: Random) -> bytes:
    return content.replace(_split(content)[1], rng.choice(_SEPARATORS))


def _other_line_ends(content: bytes, rng: Random) -> bytes:
    return content.replace(b"\n", rng.choice((b"\r\n", b"\r", b"\n\r", b"\n\n", b"\x0b")))


def _open_quote(content: bytes, rng: Random) -> bytes:
    lines, separator = _split(content)
    at = rng.randrange(len(lines))
    lines[at] = b'"' + lines[at].replace(separator, b'"' + separator + rng.choice((b"", b'"')))
    return b"\n".join(lines)


def _other_encoding(content: bytes, rng: Random) -> bytes:
    accents = rng.random() < 0.7
    text = content.decode("utf-8", "replace").replace("u", "é" if accents else "u")
    name = rng.choice(("latin-1", "utf-16", "utf-16-le", "utf-16-be", "utf-32", "cp1252"))
    encoded = text.encode(name, "replace")
    return encoded if rng.random() < 0.7 else encoded[: rng.randrange(len(encoded) + 1)]


def _packed(content: bytes, rng: Random) -> bytes:
    packed = gzip.compress(content, mtime=0)
    return packed if rng.random() < 0.5 else packed[: rng.randrange(len(packed) + 1)]


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
