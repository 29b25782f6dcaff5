"""Small valid inputs of every format, as seeds for mutations."""

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
    """Files as bytes, and their reader."""

    reader: str
    """A key of ``fuzz.files.READERS``."""
    files: dict[str, bytes]
    """Contents by file name; the reader gets the first."""
    options: dict[str, Any] = field(default_factory=dict)
    done: tuple[str, ...] = ()
    """Descriptions of the mutations."""

    def with_file(self, name: str, content: bytes, done: str) -> Case:
        """Return the case with another content of one file."""
        return replace(self, files=self.files | {name: content}, done=(*self.done, done))


def seed_case(rng: Random) -> Case:
    """Return a random valid case."""
    kind = rng.choice(list(_SEEDS))
    return replace(_SEEDS[kind](rng), done=(kind,))


def _rows(rng: Random) -> list[tuple[Any, Any, Any, Any]]:
    n = rng.choice((1, 3, 12, 40))
    as_text = rng.random() < 0.3
    return [
        (
            f"u{rng.randrange(6)}" if as_text else rng.randrange(1, 7),
            rng.randrange(1, 12),
            rng.choice((1.0, 2.5, 4.0, 5.0)),
            880_000_000 + rng.randrange(10**7),
        )
        for _ in range(n)
    ]


def _lines(rows: list[tuple[Any, ...]], separator: str, header: str | None = None) -> bytes:
    head = [] if header is None else [separator.join(header.split())]
    return ("\n".join(head + [separator.join(map(str, row)) for row in rows]) + "\n").encode()


def _csv(rng: Random) -> Case:
    rows = _rows(rng)
    if rng.random() < 0.3:
        day = [datetime.fromtimestamp(row[3], tz=UTC) for row in rows]
        rows = [(*row[:3], when.isoformat()) for row, when in zip(rows, day, strict=True)]
    if rng.random() < 0.3:
        rows = [tuple(f'"{cell}"' for cell in row) for row in rows]  # type: ignore[misc]
    separator = rng.choice(",,;|\t")
    return Case("interactions", {"r.csv": _lines(rows, separator, "userId movieId rating time")})


def _headerless(rng: Random) -> Case:
    content = _lines(_rows(rng), rng.choice("\t,"))
    columns = ["user_id", "item_id", "rating", "timestamp"]
    return Case("interactions", {"u.data": content}, {"columns": columns})


def _colons(rng: Random) -> Case:
    header = rng.choice((None, None, "user item rating time"))
    return Case("interactions", {"ratings.dat": _lines(_rows(rng), "::", header)})


def _inter(rng: Random) -> Case:
    return Case("interactions", {"a.inter": _inter_text(rng)})


def _inter_text(rng: Random) -> bytes:
    header = "user_id:token item_id:token rating:float timestamp:float"
    return _lines(_rows(rng), "\t", header)


def _netflix_text(rng: Random, film: int = 1) -> bytes:
    lines = []
    for item in range(film, film + rng.choice((1, 2))):
        lines.append(f"{item}:")
        lines += [
            f"{rng.randrange(1, 9)},{rng.randrange(1, 6)},200{rng.randrange(6)}-0"
            f"{rng.randrange(1, 10)}-1{rng.randrange(10)}"
            for _ in range(rng.choice((1, 4, 9)))
        ]
    return ("\n".join(lines) + "\n").encode()


def _netflix(rng: Random) -> Case:
    return Case("interactions", {"combined_data_1.txt": _netflix_text(rng)})


def _netflix_folder(rng: Random) -> Case:
    files = {f"mv_000000{film}.txt": _netflix_text(rng, film) for film in (1, 2)}
    return Case("folder", files)


def _parquet(rng: Random) -> Case:
    users, items, ratings, times = zip(*_rows(rng), strict=True)
    frame = pl.DataFrame({"user_id": users, "item_id": items, "rating": ratings, "time": times})
    sink = io.BytesIO()
    if rng.random() < 0.3:
        frame = frame.with_columns(pl.from_epoch("time"))
    packing: tuple[Literal["zstd", "snappy", "gzip", "lz4", "uncompressed"], ...] = (
        "zstd", "snappy", "gzip", "lz4", "uncompressed",
    )  # fmt: skip
    compression = rng.choice(packing)
    frame.write_parquet(sink, compression=compression, use_pyarrow=rng.random() < 0.5)
    return Case("interactions", {"r.parquet": sink.getvalue()})


def _odd_parquet(rng: Random) -> Case:
    return Case("interactions", {"odd.parquet": odd_parquet(rng)})


def _several(rng: Random) -> Case:
    files: dict[str, bytes] = {}
    for number in range(2):
        made = rng.choice((_csv, _colons, _inter, _parquet))(rng)
        files |= {f"{number}-{name}": content for name, content in made.files.items()}
    return Case("several", files)


def _gzipped(rng: Random) -> Case:
    made = rng.choice((_csv, _headerless, _colons, _inter, _netflix))(rng)
    return replace(
        made, files={f"{name}.gz": _gzip(content) for name, content in made.files.items()}
    )


def _gzip(content: bytes) -> bytes:
    return gzip.compress(content, mtime=0)


def _archive(rng: Random) -> Case:
    files = dict(reversed(_data_set(rng).files.items()))
    sink = io.BytesIO()
    if rng.random() < 0.5:
        packing = rng.choice((zipfile.ZIP_STORED, zipfile.ZIP_DEFLATED, zipfile.ZIP_BZIP2))
        with zipfile.ZipFile(sink, "w", packing) as packed:
            for name, content in files.items():
                packed.writestr(zipfile.ZipInfo(f"set/{name}"), content, packing)
        return Case("data set", {"set.zip": sink.getvalue()}, {"name": _named(files)})
    with tarfile.open(fileobj=sink, mode=rng.choice(("w", "w:bz2", "w:xz"))) as tar:
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


def _data_set(rng: Random) -> Case:
    """Return a folder of ratings and titles; the titles are mutated."""
    rows = _rows(rng)
    ratings = {
        "u.item": {"u.data": _lines(rows, "\t")},
        "movies.dat": {"ratings.dat": _lines(rows, "::")},
        "movies.csv": {"ratings.csv": _lines(rows, ",", "userId movieId rating timestamp")},
        "ml-1m.item": {"ml-1m.inter": _inter_text(rng)},
        "movie_titles.txt": {"combined_data_1.txt": _netflix_text(rng)},
    }
    titles = rng.choice(list(_TITLES))
    return Case(
        "data set folder", {titles: _TITLES[titles]} | ratings[titles], {"name": _NAMES[titles]}
    )


def _users(rng: Random) -> Case:
    users = [str(rng.randrange(1, 30)) for _ in range(rng.choice((1, 5)))]
    return Case("users", {"users.txt": ("\n".join(users) + "\n").encode()})


def _keys(rng: Random) -> Case:
    keys = [
        {
            "key_id": f"{number:08x}",
            "name": "shop",
            "scopes": [rng.choice(("read", "admin"))],
            "sha256": f"{rng.randrange(16**64):064x}",
            "created": "2026-01-01T00:00:00+00:00",
        }
        for number in range(rng.choice((0, 1, 3)))
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
    "Parquet, damaged": _parquet,  # twice as often, as it is the most complex format
    "Parquet with an odd schema": _odd_parquet,
    "several files": _several,
    "gzip": _gzipped,
    "archive": _archive,
    "titles": _data_set,
    "list of users": _users,
    "keys": _keys,
}
