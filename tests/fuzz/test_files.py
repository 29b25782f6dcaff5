"""A short run over mangled files, and files that once failed."""

import gzip
import io
import os
import subprocess
import sys

import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import surerec as sr
from fuzz import files

HEAD = b"user,item,rating,time\n"
ROWS = HEAD + b"1,2,3,881250949\n1,3,4,881250950\n"


def refused(path, says, **options):
    with pytest.raises(sr.InputError, match=says) as caught:
        sr.read_interactions(path, **options)
    assert str(path) in str(caught.value)
    assert "\n" not in str(caught.value)


def parquet(path, **columns):
    usual = {"user_id": pa.array([1, 1]), "item_id": pa.array([1, 2]), "time": pa.array([5, 6])}
    pq.write_table(pa.table(usual | columns), path)
    return path


def test_mangled_files_are_answered_or_refused_by_name():
    tally = files.run(300, random_state=1)
    assert tally.tried == 300
    assert not tally.failures, tally.examples
    assert tally.answered > 30
    assert tally.refused > 100


def test_gzip_needs_no_more_memory_than_its_content(write):
    """Python once allocated gigabytes for a file of 60 bytes."""
    path = write("r.csv.gz", gzip.compress(ROWS))
    code = (
        "import resource, sys\n"
        "from pathlib import Path\n"
        "from surerec import read_interactions\n"  # which loads what reads, before memory is scarce
        "now = int(Path('/proc/self/statm').read_text().split()[0]) * resource.getpagesize()\n"
        "resource.setrlimit(resource.RLIMIT_AS, (now + (1 << 30),) * 2)\n"
        "print(read_interactions(sys.argv[1]))"
    )
    if not os.path.exists("/proc/self/statm"):  # noqa: PTH110
        pytest.skip("no /proc here")
    done = subprocess.run([sys.executable, "-c", code, path], capture_output=True, text=True)  # noqa: S603, PLW1510
    assert "1 users, 2 items" in done.stdout, done.stderr


@pytest.mark.parametrize(
    ("content", "says"),
    [
        (b"\xef\xbb\xbf", "is empty"),
        (gzip.compress(b"\xef\xbb\xbf", mtime=0), "is empty"),
        (b"kunde,artikel,datum\nann,7,2024-05-01\n", "no user or item or time column among 'kun"),
        (b"\xe9\n" + ROWS, "no user or item or time column among"),
        (HEAD + b'1,"2,3,4\n', "cannot be read as a table"),
        (HEAD + b'\xe9,"2,3,4\n', "cannot be read as a table"),
        (HEAD + b'1,2,3,4,5\n1,"' + b"y" * 140_000 + b'",3,4\n', "field larger than field limit"),
        (b'"' + b"y" * 140_000 + b'",user,item,time\n1,2,3,4\n', "column among 'yyy"),
        (b"user,item,time,TIME\n1,2,3,4\n", "2 columns may be the time"),
    ],
)
def test_malformed_text_is_refused(write, content, says):
    refused(write("bad.csv", content), says)


def test_several_columns_of_other_roles_may_share_a_name(write):
    path = write("r.csv", b"user,item,time,note,note\n1,2,3,a,b\n")
    assert sr.read_interactions(path).n_rows == 1
    with pytest.raises(sr.InputError, match="2 columns may be the user"):
        sr.read_interactions(write("s.csv", b"who,who,item,time\n1,2,3,4\n"), user="who")


@pytest.mark.parametrize(
    ("column", "values", "says"),
    [
        ("user_id", pa.array([1e19, 2.0]), r"ids above 2\*\*53 are not exact"),
        ("time", pa.array([5, 2**63], pa.uint64()), r"cannot parse time .*\(1 row\)"),
        ("time", pa.array([5, 2**62], pa.timestamp("ms")), r"cannot parse time .*\(1 row\)"),
        ("time", pa.array([[1], [2]]), "times must be Unix times or dates, not List"),
        ("user_id", pa.array([{"a": 1}, None]), "ids must be integers or text, not Struct"),
    ],
)
def test_parquet_of_odd_types_and_values(tmp_path, column, values, says):
    refused(parquet(tmp_path / "odd.parquet", **{column: values}), says)


def test_parquet_with_a_name_twice(tmp_path):
    names = ["user_id", "user_id", "item_id", "time"]
    table = pa.Table.from_arrays([pa.array([1])] * 4, names=names)
    pq.write_table(table, tmp_path / "twice.parquet")
    refused(tmp_path / "twice.parquet", "user_id|not a readable Parquet file")


@pytest.mark.parametrize(("by_arrow", "bit"), [(False, 0x80), (True, 0x02)])
def test_damaged_parquet_is_refused_or_read_wherever_the_damage_is(tmp_path, by_arrow, bit):
    """Arrow aborts the process on damaged sizes of levels in its own files."""
    sink = io.BytesIO()
    frame = pl.DataFrame({"user": ["a", "b"], "item": [1, 2], "time": [5, 6]})
    frame.write_parquet(sink, use_pyarrow=by_arrow)
    whole, path = sink.getvalue(), tmp_path / "r.parquet"
    for at in range(len(whole) // 4 if by_arrow else 4, len(whole), 1 if by_arrow else 5):
        damaged = bytearray(whole)
        damaged[at] ^= bit
        path.write_bytes(damaged)
        try:
            sr.read_interactions(path)
        except sr.InputError as error:
            assert str(path) in str(error)  # noqa: PT017  # some bytes are not read
            assert "\n" not in str(error)  # noqa: PT017


@pytest.mark.skipif(os.name != "posix", reason="devices and pipes of Unix")
def test_devices_and_pipes_are_not_read(tmp_path):
    os.mkfifo(tmp_path / "pipe")
    refused(tmp_path / "pipe", "a pipe, not a file")
    for device in ("/dev/zero", "/dev/urandom", "/dev/null", "/dev/tty"):
        if os.path.exists(device):  # noqa: PTH110
            refused(device, f"{device}: a device, not a file")


def test_a_member_of_an_archive_is_named_with_the_archive(tmp_path):
    import zipfile  # noqa: PLC0415

    path = tmp_path / "set.zip"
    with zipfile.ZipFile(path, "w") as packed:
        packed.writestr("u.data", "1\t2\t3\tyesterday\n")
    with pytest.raises(sr.InputError, match=r"set\.zip: u\.data:1: cannot parse time"):
        sr.load_dataset("ml-100k", path=path)
