"""Valid Parquet files with columns of unusual types, values or names."""

from __future__ import annotations

import io
import math
from datetime import date, timedelta
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq

if TYPE_CHECKING:
    from random import Random

_DAY = date(2004, 5, 6)
_ODD: tuple[tuple[Any, list[Any]], ...] = (
    (pa.float64(), [1e19, 2.0, math.nan]),
    (pa.float64(), [math.inf, -math.inf, 1e308]),
    (pa.float64(), [-1e19, 1.0, 9.3e18]),
    (pa.float32(), [1e19, 2.0, 3.0]),
    (pa.float16(), [1.0, 2.0, 3.0]),
    (pa.uint64(), [2**63, 2**64 - 1, 1]),
    (pa.uint64(), [1, 2, 3]),
    (pa.int64(), [-(2**63), 2**63 - 1, 0]),
    (pa.int64(), [None, None, None]),
    (pa.int8(), [1, -1, 127]),
    (pa.bool_(), [True, False, None]),
    (pa.null(), [None, None, None]),
    (pa.string(), ["a", "", None]),
    (pa.string(), ["9" * 30, "-0", "+1"]),
    (pa.string(), ["1e19", "nan", "inf"]),
    (pa.string(), ["x" * 200_000, "\0", "two\nlines"]),
    (pa.large_string(), ["1", "2", "3"]),
    (pa.binary(), [b"\xff\xfe", b"1", b""]),
    (pa.decimal128(38, 2), [Decimal("99999999999999999999.25"), Decimal(1), None]),
    (pa.decimal128(9, 0), [Decimal(1), Decimal(2), Decimal(3)]),
    (pa.decimal256(76, 0), [Decimal(10**75), Decimal(2), Decimal(3)]),
    (pa.duration("us"), [timedelta(days=1), timedelta(0), None]),
    (pa.date32(), [_DAY, None, date(9999, 12, 31)]),
    (pa.date64(), [_DAY, _DAY, None]),
    (pa.time64("us"), [1, 2, 3]),
    (pa.timestamp("s"), [2**40, 1, -5]),
    (pa.timestamp("ms"), [2**62, -(2**62), None]),
    (pa.timestamp("ns", tz="Europe/Paris"), [2**62, 1, None]),
    (pa.list_(pa.int64()), [[1, 2], [], None]),
    (pa.struct([("a", pa.int64())]), [{"a": 1}, None, {"a": 3}]),
    (pa.map_(pa.string(), pa.int64()), [[("a", 1)], [], None]),
    (pa.dictionary(pa.int32(), pa.string()), ["a", "b", None]),
    (pa.dictionary(pa.int8(), pa.int64()), [1, 2, None]),
    (pa.list_(pa.struct([("a", pa.list_(pa.string()))])), [[{"a": ["x"]}], [], None]),
    (pa.binary(16), [b"0" * 16, b"1" * 16, None]),
)
_NAMES = ("user_id", "item_id", "rating", "timestamp")


def odd_parquet(rng: Random) -> bytes:
    """Return a Parquet file of three rows with some unusual columns."""
    arrays: list[Any] = [
        pa.array(rng.choice(([1, 1, 2], ["a", "a", "b"]))),
        pa.array([1, 2, 2]),
        pa.array([1.0, 4.5, 5.0]),
        pa.array([881_250_949, 881_250_950, 881_250_951]),
    ]
    for _ in range(rng.choice((1, 1, 2, 4))):
        kind, values = rng.choice(_ODD)
        try:
            arrays[rng.randrange(4)] = pa.array(values, kind)
        except (pa.ArrowException, TypeError, ValueError):
            continue
    names = list(_NAMES)
    if rng.random() < 0.15:
        names[rng.randrange(4)] = rng.choice((*_NAMES, "", "User_ID", "é\n", "x" * 5000))
    keep = 4 if rng.random() < 0.9 else rng.randrange(4)
    table = pa.Table.from_arrays(arrays[:keep], names=names[:keep])
    if rng.random() < 0.1:
        table = table.slice(0, 0)
    sink = io.BytesIO()
    try:
        pq.write_table(
            table,
            sink,
            row_group_size=rng.choice((1, 2, 1000)),
            compression=rng.choice(("none", "snappy", "zstd")),
            data_page_version=rng.choice(("1.0", "2.0")),
            use_dictionary=rng.random() < 0.5,
        )
    except pa.ArrowException:  # a type that Parquet lacks
        sink = io.BytesIO()
        pq.write_table(pa.table({"user_id": [1], "item_id": [2], "time": [3]}), sink)
    return sink.getvalue()
