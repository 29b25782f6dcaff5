"""Available memory: that of the machine, within the limits of control groups."""

from __future__ import annotations

import pytest

from surerec import InputError, _memory
from surerec._memory import available_memory, parse_bytes

FREE = 16_000
UNLIMITED_V1 = "9223372036854771712"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes the files of a machine: its own path and groups."""
    monkeypatch.setattr(_memory, "_ROOT", tmp_path)

    def write(path, text):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def make(own, groups):
        write("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:    {FREE} kB")
        write("proc/self/cgroup", "\n".join(own))
        for folder, (limit, used, cached) in groups.items():
            version = 1 if "/memory" in folder else 2
            names = [("memory.limit_in_bytes", "memory.usage_in_bytes", "total_"),
                     ("memory.max", "memory.current", "")][version - 1]  # fmt: skip
            write(f"{folder}/{names[0]}", limit)
            write(f"{folder}/{names[1]}", used)
            write(
                f"{folder}/memory.stat",
                f"anon 5\n{names[2]}active_file {cached}\n{names[2]}inactive_file 1",
            )

    return make


SYS = "/sys/fs/cgroup"


CASES = {
    "no groups": ([], {}, FREE * 1024),
    "a container sees itself as root": (["0::/"], {SYS: (9_000, 2_000, 0)}, 7_001),
    "the limit around it is closer, and that beside it is not its own": (
        ["0::/shop.slice/serve.service"],
        {
            f"{SYS}/shop.slice": (6_000, 4_000, 0),
            f"{SYS}/shop.slice/serve.service": (5_000, 1_000, 0),
            f"{SYS}/shop.slice/other.service": (10, 10, 0),
        },
        2_001,
    ),
    "above its limit": (["0::/a"], {f"{SYS}/a": ("max", 1_000, 0), SYS: (8_000, 9_000, 500)}, 0),
    "version 1, nested, beside an empty version 2": (
        ["5:cpu:/", "4:memory:/batch/job7", "0::/"],
        {
            f"{SYS}/memory": (UNLIMITED_V1, 1_000, 0),
            f"{SYS}/memory/batch": (7_000, 1_000, 0),
            f"{SYS}/memory/batch/job7": (UNLIMITED_V1, 1_000, 0),
        },
        6_001,
    ),
    "a group outside of what is mounted": (["0::/../../else"], {SYS: (9_000, 2_000, 0)}, 7_001),
}


@pytest.mark.parametrize("case", CASES)
def test_limits_of_all_control_groups_apply(machine, case):
    own, groups, expected = CASES[case]
    machine(own, groups)
    assert available_memory() == expected


def test_systems_without_proc_have_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(_memory, "_ROOT", tmp_path)
    assert available_memory() > 1 << 20


def test_amounts_of_memory_are_parsed_or_refused():
    amounts = ("2GB", "1.5 GB", "500MB", "64kB", "7")
    expected = [2 * 10**9, 15 * 10**8, 5 * 10**8, 64_000, 7]
    assert [parse_bytes(text) for text in amounts] == expected
    for text in ("", "much", "-2GB", "2 XB"):
        with pytest.raises(InputError, match="Use for example 2GB"):
            parse_bytes(text)
