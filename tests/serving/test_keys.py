"""API keys, their file and their rate limits."""

import os
import stat

import pytest
from hypothesis import given
from hypothesis import strategies as st

from surerec.errors import InputError
from surerec.serving import KeyFile
from surerec.serving._keys import Keyring
from surerec.serving._supervisor import RateLimits, shared_memory


@pytest.fixture
def keys(tmp_path):
    return KeyFile(tmp_path / "my keys.json")


def test_a_key_file_contains_no_secrets_and_is_private(keys):
    key = keys.create("shop")
    assert stat.S_IMODE(keys.path.stat().st_mode) == 0o600
    assert key.split("_", 2)[2] not in keys.path.read_text()
    ring = Keyring(keys)
    assert ring.find(key).name == "shop"
    kept = keys.read()[0]
    for wrong in ("", "sr_", key[:-1], key + "x", key.upper(), f"sr_{kept.key_id}_", kept.sha256):
        assert ring.find(wrong) is None


def test_a_keyring_reloads_changes_and_fails_closed(keys):
    first = keys.create("first")
    ring = Keyring(keys)
    second = keys.create("second", ["admin"])
    assert ring.find(second).may("read")
    keys.revoke(ring.find(first).key_id)
    assert ring.find(first) is None
    keys.path.chmod(0o644)
    with pytest.raises(InputError, match="own, read or write this key file"):
        ring.find(second)
    keys.path.write_text("{")
    keys.path.chmod(0o600)
    with pytest.raises(InputError, match="damaged"):
        ring.find(second)


@pytest.mark.parametrize("mode", [0o640, 0o604, 0o620, 0o644, 0o666, None])
def test_a_shared_key_file_is_refused_with_the_fix(keys, mode, monkeypatch):
    key = keys.create("shop")
    fix = "chown" if mode is None else "chmod 600"
    if mode is None:
        monkeypatch.setattr(os, "geteuid", lambda: keys.path.stat().st_uid + 1)
    else:
        keys.path.chmod(mode)
    for call in (keys.read, lambda: Keyring(keys), lambda: keys.create("b")):
        with pytest.raises(InputError, match=rf"with `{fix} .*'.*my keys\.json'`"):
            call()
    monkeypatch.undo()
    keys.path.chmod(0o600)
    assert Keyring(keys).find(key)


def test_invalid_key_files_are_refused(tmp_path):
    for path in (
        tmp_path,
        "",
        ".",
        "/",
        "/proc/nope/keys",
        "/proc/keys",
        "/proc/self/mem",
        "/dev/zero",
        "\0",
    ):
        file = KeyFile(path)
        for call in (file.read, lambda: file.create("a"), lambda: file.revoke("")):  # noqa: B023
            with pytest.raises(InputError):
                call()
    assert not list(tmp_path.iterdir())


def test_links_to_key_files_are_followed(tmp_path):
    link = tmp_path / "keys.json"
    link.symlink_to(tmp_path / "real.json")
    KeyFile(link).create("shop")
    assert link.is_symlink()
    assert stat.S_IMODE((tmp_path / "real.json").stat().st_mode) == 0o600


@given(
    rate=st.sampled_from([1.0, 2.0, 8.0]),
    burst=st.integers(1, 5),
    gaps=st.lists(st.sampled_from([0.0, 0.0, 0.125, 0.5, 3.0]), max_size=40),
)
def test_rate_limits_equal_a_token_bucket(rate, burst, gaps):
    with shared_memory() as memory:
        limits = RateLimits(memory.fileno(), rate, burst)
        tokens, now = float(burst), 1_000.0
        for gap in gaps:
            now += gap
            tokens = min(burst, tokens + gap * rate)
            wait = limits.wait("ann", now)
            assert (wait == 0) == (tokens >= 1 - 1e-9)
            if wait == 0:
                tokens -= 1
            else:
                assert wait == pytest.approx((1 - tokens) / rate)


def test_workers_share_rate_limits():
    with shared_memory() as memory:
        one, other = (RateLimits(memory.fileno(), 1.0, 1) for _ in range(2))
        assert [one.wait(f"key {n}", 50.0) for n in range(900)] == [0.0] * 900
        assert all(other.wait(f"key {n}", 50.0) > 0 for n in range(900))
        assert [one.wait(f"new {n}", 60.0) for n in range(900)] == [0.0] * 900  # the oldest go


def test_keys_commands(cli, tmp_path):
    file = tmp_path / "keys.json"
    key = cli("keys", "create", file, "--name", "shop [x]", "--scope", "admin").out.strip()
    assert key.startswith("sr_")
    key_id, listed = key.split("_")[1], cli("keys", "list", file).out
    assert all(text in listed for text in (key_id, "shop [x]", "admin"))
    assert key not in listed
    assert cli("keys", "revoke", file, key_id).code == 0
    assert "there is no key" in cli("keys", "revoke", file, key_id).err
    assert cli("keys", "create", file, "--name", "x", "--scope", "root").code == 2
    assert cli("keys", "create", tmp_path / "no" / "keys", "--name", "x").code == 2
    file.write_text("[]")
    assert "damaged" in cli("keys", "list", file).err
