"""Small valid inputs of every format that surerec reads, to be mangled."""

from __future__ import annotations

import gzip
import io
import json
import tarfile
import zipfile
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from typing import TYPE_CHECKING, Any, Literal

import polars as pl

from fuzz.file_schemas import odd_parquet

if TYPE_CHECKING:
    from collections.abc import Callable
    from random import Random


@dataclass(frozen=True)
class Case:
    """Files as bytes, and who is to read them."""

    reader: str
    """A key of ``fuzz.files.READERS``."""
    files: dict[str, bytes]
    """Each by its name in a folder of its own; the first is the one that is named to the reader."""
    options: dict[str, Any] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    """What was done to it, in words."""

    def with_file(self, name: str, content: bytes, done: str) -> Case:
        """Give the case with another content of one file."""
        return replace(self, files=self.files | {name: content}, done=(*self.done, done))


def seed_case(chance: Random) -> Case:
    """Give a valid case; the same chance gives the same."""
    kind = chance.choice(list(_SEEDS))
    return replace(_SEEDS[kind](chance), done=(kind,))


def _rows(chance: Random) -> list[tuple[Any, Any, Any, Any]]:
    n = chance.choice((1, 3, 12, 40))
    as_text = chance.random() < 0.3
    return [
        (
            f"u{chance.randrange(6)}" if as_text else chance.randrange(1, 7),
            chance.randrange(1, 12),
            chance.choice((1.0, 2.5, 4.0, 5.0)),
            880_000_000 + chance.randrange(10**7),
        )
        for _ in range(n)
    ]


def _lines(rows: list[tuple[Any, ...]], separator: str, header: str | None = None) -> bytes:
    head = [] if header is None else [separator.join(header.split())]
    return ("\n".join(head + [separator.join(map(str, row)) for row in rows]) + "\n").encode()


def _csv(chance: Random) -> Case:
    rows = _rows(chance)
    if chance.random() < 0.3:
        day = [datetime.fromtimestamp(row[3], tz=UTC) for row in rows]
        rows = [(*row[:3], when.isoformat()) for row, when in zip(rows, day, strict=True)]
    if chance.random() < 0.3:
        rows = [tuple(f'"{cell}"' for cell in row) for row in rows]  # type: ignore[misc]
    separator = chance.choice(",,;|\t")
    return Case("interactions", {"r.csv": _lines(rows, separator, "userId movieId rating time")})


def _headerless(chance: Random) -> Case:
    content = _lines(_rows(chance), chance.choice("\t,"))
    columns = ["user_id", "item_id", "rating", "timestamp"]
    return Case("interactions", {"u.data": content}, {"columns": columns})


def _colons(chance: Random) -> Case:
    header = chance.choice((None, None, "user item rating time"))
    return Case("interactions", {"ratings.dat": _lines(_rows(chance), "::", header)})


def _inter(chance: Random) -> Case:
    return Case("interactions", {"a.inter": _inter_text(chance)})


def _inter_text(chance: Random) -> bytes:
    header = "user_id:token item_id:token rating:float timestamp:float"
    return _lines(_rows(chance), "\t", header)


def _netflix_text(chance: Random, film: int = 1) -> bytes:
    lines = []
    for item in range(film, film + chance.choice((1, 2))):
        lines.append(f"{item}:")
        lines += [
            f"{chance.randrange(1, 9)},{chance.randrange(1, 6)},200{chance.randrange(6)}-0"
            f"{chance.randrange(1, 10)}-1{chance.randrange(10)}"
            for _ in range(chance.choice((1, 4, 9)))
        ]
    return ("\n".join(lines) + "\n").encode()


def _netflix(chance: Random) -> Case:
    return Case("interactions", {"combined_data_1.txt": _netflix_text(chance)})


def _netflix_folder(chance: Random) -> Case:
    files = {f"mv_000000{film}.txt": _netflix_text(chance, film) for film in (1, 2)}
    return Case("folder", files)


def _parquet(chance: Random) -> Case:
    users, items, ratings, times = zip(*_rows(chance), strict=True)
    frame = pl.DataFrame({"user_id": users, "item_id": items, "rating": ratings, "time": times})
    sink = io.BytesIO()
    if chance.random() < 0.3:
        frame = frame.with_columns(pl.from_epoch("time"))
    packing: tuple[Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"], ...] = (
        "zstd", "snappy", "gzip", "lz4", "uncompressed",
    )  # fmt: skip
    compression = chance.choice(packing)
    frame.write_parquet(sink, compression=compression, use_pyarrow=chance.random() < 0.5)
    return Case("interactions", {"r.parquet": sink.getvalue()})


def _odd_parquet(chance: Random) -> Case:
    return Case("interactions", {"odd.parquet": odd_parquet(chance)})


def _several(chance: Random) -> Case:
    files: dict[str, bytes] = {}
    for number in range(2):
        made = chance.choice((_csv, _colons, _inter, _parquet))(chance)
        files |= {f"{number}-{name}": content for name, content in made.files.items()}
    return Case("several", files)


def _gzipped(chance: Random) -> Case:
    made = chance.choice((_csv, _headerless, _colons, _inter, _netflix))(chance)
    return replace(
        made, files={f"{name}.gz": _gzip(content) for name, content in made.files.items()}
    )


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _archive(chance: Random) -> Case:
    files = dict(reversed(_data_set(chance).files.items()))
    sink = io.BytesIO()
    if chance.random() < 0.5:
        packing = chance.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
        with zipfile.ZipFile(sink, "w", packing) as packed:
            for name, content in files.items():
                packed.writestr(zipfile.ZipInfo(f"set/{name}"), content, packing)
        return Case("data set", {"set.zip": sink.getvalue()}, {"name": _named(files)})
    with tarfile.open(fileobj=sink, mode=chance.choice(("w", "w:bz2", "w:xz"))) as tar:
        for name, content in files.items():
            about = tarfile.TarInfo(f"set/{name}")
            about.size = len(content)
            tar.addfile(about, io.BytesIO(content))
    return Case("data set", {"set.tar": sink.getvalue()}, {"name": _named(files)})


_TITLES = {
    "u.item": b"1|Kolya (1996)|24-Jan-1997||x\n2|Caf\xe9 au lait (1993)|01-Jan-1993||x\n",
    "movies.dat": b"1::Toy Story (1995)::Animation\n2::Mission: 2::3 (1996)::Drama\n",
    "movies.csv": b'movieId,title,genres\n1,Toy Story (1995),Comedy\n2,"Jumanji, ""2""",Drama\n',
    "ml-1m.item": b"item_id:token\tmovie_title:token_seq\trelease_year:token\n1\tToy\t1995\n",
    "movie_titles.txt": b"1,2003,Dinosaur Planet\n2,NULL,Isle of Man, TT\n",
}
_NAMES = {
    "u.item": "ml-100k",
    "movies.dat": "ml-1m",
    "movies.csv": "ml-latest-small",
    "ml-1m.item": "ml-1m",
    "movie_titles.txt": "netflix-prize",
}


def _named(files: dict[str, bytes]) -> str:
    return next(name for file, name in _NAMES.items() if file in files)


def _data_set(chance: Random) -> Case:
    """Make a folder of ratings and titles, of which the titles are mangled."""
    rows = _rows(chance)
    ratings = {
        "u.item": {"u.data": _lines(rows, "\t")},
        "movies.dat": {"ratings.dat": _lines(rows, "::")},
        "movies.csv": {"ratings.csv": _lines(rows, ",", "userId movieId rating timestamp")},
        "ml-1m.item": {"ml-1m.inter": _inter_text(chance)},
        "movie_titles.txt": {"combined_data_1.txt": _netflix_text(chance)},
    }
    titles = chance.choice(list(_TITLES))
    return Case(
        "data set folder", {titles: _TITLES[titles]} | ratings[titles], {"name": _NAMES[titles]}
    )


def _users(chance: Random) -> Case:
    people = [str(chance.randrange(1, 30)) for _ in range(chance.choice((1, 5)))]
    return Case("users", {"users.txt": ("\n".join(people) + "\n").encode()})


def _keys(chance: Random) -> Case:
    keys = [
        {
            "key_id": f"{number:08x}",
            "name": "shop",
            "scopes": [chance.choice(("read", "admin"))],
            "sha256": f"{chance.randrange(16**64):064x}",
            "created": "2026-01-01T00:00:00+00:00",
        }
        for number in range(chance.choice((0, 1, 3)))
    ]
    text = json.dumps({"format": "surerec-keys", "keys": keys}, indent=2)
    return Case("keys", {"keys.json": text.encode()})


_SEEDS: dict[str, Callable[[Random], Case]] = {
    "CSV": _csv,
    "text without a header": _headerless,
    "'::' text": _colons,
    "RecBole": _inter,
    "Netflix text": _netflix,
    "Netflix folder": _netflix_folder,
    "Parquet": _parquet,
    "Parquet, damaged": _parquet,  # more of what libraries find hardest
    "Parquet with an odd schema": _odd_parquet,
    "several files": _several,
    "gzip": _gzipped,
    "archive": _archive,
    "titles": _data_set,
    "list of users": _users,
    "keys": _keys,
}
