"""Fixture: a PostgreSQL server of its own."""

import os
import pwd
import shutil
import subprocess
import tempfile
import time
from itertools import count
from pathlib import Path

import pytest

_numbers = count(1)


def _program(name):
    found = shutil.which(name)
    places = sorted(Path("/usr/lib/postgresql").glob(f"*/bin/{name}"))
    return found or (str(places[-1]) if places else None)


def _as_own_user():
    """PostgreSQL refuses to run as root: then it runs as the user that its package made."""
    if os.getuid() != 0:
        return {}
    try:
        user = pwd.getpwnam("postgres")
    except KeyError:
        pytest.skip("PostgreSQL does not run as root, and there is no user postgres")
    return {"user": user.pw_uid, "group": user.pw_gid, "extra_groups": []}


@pytest.fixture(scope="session")
def postgres():
    """Return a function that creates a database and returns its address."""
    psycopg = pytest.importorskip("psycopg", reason="psycopg is not installed: surerec[postgres]")
    if not (_program("initdb") and _program("postgres")):
        pytest.skip("PostgreSQL is not installed (apt install postgresql)")
    own = _as_own_user()
    folder = Path(tempfile.mkdtemp(prefix="surerec-pg-", dir="/tmp"))  # sockets need short paths
    if own:
        os.chown(folder, own["user"], own["group"])
    data = folder / "data"
    subprocess.run(  # noqa: S603  # PostgreSQL's own
        [_program("initdb"), "-D", data, "-U", "surerec", "--auth=trust", "-E", "UTF8"],
        check=True, capture_output=True, cwd="/", **own,
    )  # fmt: skip
    server = subprocess.Popen(  # noqa: S603
        [_program("postgres"), "-D", data, "-k", folder, "-c", "listen_addresses=",
         "-c", "fsync=off"],
        cwd="/", stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL, **own,
    )  # fmt: skip
    address = f"postgresql://surerec@/{{}}?host={folder}"
    try:
        for _ in range(200):
            try:
                psycopg.connect(address.format("postgres")).close()
                break
            except psycopg.OperationalError:
                time.sleep(0.1)

        def new_database():
            name = f"t{next(_numbers)}"
            with psycopg.connect(address.format("postgres"), autocommit=True) as connection:
                connection.execute(f"CREATE DATABASE {name}")
            return address.format(name)

        yield new_database
    finally:
        server.terminate()
        server.wait()
        shutil.rmtree(folder, ignore_errors=True)
