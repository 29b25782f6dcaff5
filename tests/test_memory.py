"""The memory that may still be used: the machine's, within the limits of its control groups."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest

from surerec import _memory
from surerec._memory import available_memory

FREE = 16_000
V1, V2 = "cgroup", "cgroup2"
UNLIMITED_V1 = "9223372036854771712"


@pytest.fixture
def machine(tmp_path, monkeypatch):
    """Return a function that makes the files of a machine: its mounts, own path and groups."""
    monkeypatch.setattr(_memory, "_ROOT", tmp_path)

    def write(path, text):
        file = tmp_path / path.lstrip("/")
        file.parent.mkdir(parents=True, exist_ok=True)
        file.write_text(f"{text}\n")

    def make(own, mounts, groups):
        write("proc/meminfo", f"MemTotal: 99 kB\nMemAvailable:    {FREE} kB")
        write("proc/self/cgroup", "\n".join(own))
        write("proc/self/mountinfo", "\n".join(mounts))
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


def mount(kind, point, root="/", options="rw"):
    return f"30 23 0:26 {root} {point} rw,nosuid shared:9 - {kind} cgroup {options}"


SYS = "/sys/fs/cgroup"
UNIFIED = [mount("ext4", "/", options="rw"), mount(V2, SYS)]
SPLIT = [mount(V1, f"{SYS}/cpu", options="rw,cpu"), mount(V1, f"{SYS}/memory", options="rw,memory")]


@pytest.mark.parametrize(
    ("own", "mounts", "groups", "expected"),
    [
        pytest.param([], [], {}, FREE * 1024, id="no groups"),
        pytest.param(["0::/"], UNIFIED, {}, FREE * 1024, id="the root"),
        pytest.param(
            ["0::/"], UNIFIED, {SYS: (9_000, 2_000, 0)}, 7_001, id="a container sees itself as root"
        ),
        pytest.param(
            ["0::/shop.slice/serve.service"],
            UNIFIED,
            {f"{SYS}/shop.slice/serve.service": (5_000, 1_000, 0)},
            4_001,
            id="a service",
        ),
        pytest.param(
            ["0::/shop.slice/serve.service"],
            UNIFIED,
            {
                f"{SYS}/shop.slice": (6_000, 4_000, 0),
                f"{SYS}/shop.slice/serve.service": (5_000, 1_000, 0),
                f"{SYS}/shop.slice/other.service": (10, 10, 0),
            },
            2_001,
            id="the limit around it is closer, and that beside it is not its own",
        ),
        pytest.param(
            ["0::/a"],
            UNIFIED,
            {f"{SYS}/a": ("max", 1_000, 0), SYS: (8_000, 9_000, 500)},
            0,
            id="above its limit",
        ),
        pytest.param(
            ["0::/a"],
            UNIFIED,
            {f"{SYS}/a": (9_000, 8_000, 6_000)},
            7_001,
            id="files that were read are given back",
        ),
        pytest.param(
            ["5:cpu:/", "4:memory:/batch/job7", "0::/"],
            [*SPLIT, mount(V2, f"{SYS}/unified")],
            {
                f"{SYS}/memory": (UNLIMITED_V1, 1_000, 0),
                f"{SYS}/memory/batch": (7_000, 1_000, 0),
                f"{SYS}/memory/batch/job7": (UNLIMITED_V1, 1_000, 0),
            },
            6_001,
            id="version 1, nested, beside an empty version 2",
        ),
        pytest.param(
            ["4:memory:/docker/f00"],
            [mount(V1, f"{SYS}/memory", root="/docker/f00", options="rw,memory")],
            {f"{SYS}/memory": (3_000, 1_000, 0)},
            2_001,
            id="version 1, a container that sees the path outside",
        ),
        pytest.param(
            ["0::/../../else"],
            UNIFIED,
            {SYS: (9_000, 2_000, 0)},
            7_001,
            id="a group outside of what is mounted",
        ),
    ],
)
def test_the_limit_is_that_of_the_own_group_and_of_all_around_it(
    machine, own, mounts, groups, expected
):
    machine(own, mounts, groups)
    assert available_memory() == expected


def test_a_machine_without_the_files_of_linux_has_memory_too(tmp_path, monkeypatch):
    monkeypatch.setattr(_memory, "_ROOT", tmp_path)
    assert available_memory() > 1 << 20


@pytest.mark.skipif(sys.platform != "linux", reason="Linux only")
def test_the_groups_of_this_process_are_found():
    """Every controller's folder lists this process: where groups can be seen at all."""
    folders = [
        group for group, version in _memory._control_groups() if (group / version.used).exists()
    ]
    lists = [folder / "cgroup.procs" for folder in folders]
    if not lists or not Path("/proc/self/cgroup").read_text().strip():
        pytest.skip("no control groups here")
    assert str(os.getpid()) in lists[0].read_text().split()
