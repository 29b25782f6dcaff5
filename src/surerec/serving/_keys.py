"""API keys: shown once, stored as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shlex
from contextlib import contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Final, Literal, TypeAlias, get_args

from pydantic import Field, TypeAdapter

from surerec._files import file_aside
from surerec._inputs import as_input_error, check_file, parse_json, read_whole
from surerec._lock import exclusive
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator, Sequence


Scope: TypeAlias = Literal["read", "events", "admin"]
SCOPES: Final[tuple[str, ...]] = get_args(Scope)
_FORMAT: Final = "surerec-keys"
_MOST_KEYS: Final = 500
_OTHERS: Final = 0o077


@dataclass(frozen=True)
class ApiKey:
    """A stored API key, without its secret."""

    key_id: str
    """Public part of the key, for logs and lists."""
    name: str
    scopes: tuple[Scope, ...]
    """"read", "events" (send events) or "admin" (everything)."""
    sha256: Annotated[str, Field(min_length=64, max_length=64)]
    """Hash of the whole key; with 256 random bits, it needs no slow hash."""
    created: str

    def may(self, scope: str) -> bool:
        """Return whether the key has a scope."""
        return scope in self.scopes or "admin" in self.scopes


_KEYS: Final = TypeAdapter(list[ApiKey])


class KeyFile:
    """A file of API keys, readable only by its owner.

    Parameters
    ----------
    path : path
        The file, which the first :meth:`create` creates.

    Examples
    --------
    >>> keys = KeyFile(getfixture("tmp_path") / "keys.json")
    >>> key = keys.create("shop", ["read"])
    >>> [(kept.name, kept.scopes) for kept in keys.read()]
    [('shop', ('read',))]
    >>> key in keys.path.read_text()
    False
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self.path = Path(path)

    def read(self) -> list[ApiKey]:
        """Return all keys."""
        if not self._exists():
            raise InputError(
                f"There is no key file {self.path}. Create one with "
                f"`surerec keys create {self.path} --name NAME`."
            )
        check_file(self.path)
        self._refuse_shared()
        raw = read_whole(self.path)
        try:
            content = parse_json(raw)
            if content["format"] == _FORMAT:
                return _KEYS.validate_python(content["keys"])
        except (ValueError, TypeError, KeyError):
            pass
        raise InputError(
            f"{self.path} is not a file of API keys, or is damaged. Restore it from a backup, or "
            "use another file."
        )

    def create(self, name: str, scopes: Sequence[str] = ("read",)) -> str:
        """Add a key and return it; only its hash is stored."""
        if unknown := [scope for scope in scopes if scope not in SCOPES]:
            raise InputError(f"There is no scope {unknown[0]!r}. Use {', '.join(SCOPES)}.")
        if not name.strip() or len(name) > 100:  # noqa: PLR2004
            raise InputError("The key name is empty or too long. Use 1 to 100 characters.")
        key_id = secrets.token_hex(4)
        key = f"sr_{key_id}_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = {"key_id": key_id, "name": name, "scopes": list(dict.fromkeys(scopes))}
        with self._changing() as kept:
            if len(kept) >= _MOST_KEYS:
                raise InputError(
                    f"{self.path} has {_MOST_KEYS} keys, the maximum. Revoke some first."
                )
            kept.extend(_KEYS.validate_python([{**made, "sha256": _sha256(key), "created": now}]))
        return key

    def revoke(self, key_id: str) -> ApiKey:
        """Remove a key and return it; running servers reject it at once."""
        with self._changing() as kept:
            for key in kept:
                if key.key_id == key_id:
                    kept.remove(key)
                    return key
            raise InputError(
                f"{self.path}: there is no key {key_id!r}. List keys with `surerec keys list`."
            )

    def _refuse_shared(self) -> None:
        """Check that only the owner can read or write the file."""
        if os.name != "posix":
            return
        about, quoted, owner = self.path.stat(), shlex.quote(str(self.path)), os.geteuid()
        if about.st_uid != owner or about.st_mode & _OTHERS:
            fix = f"chmod 600 {quoted}" if about.st_uid == owner else f"chown {owner} {quoted}"
            raise InputError(
                f"{self.path}: other users own, read or write this key file. Restrict access with "
                f"`{fix}`."
            )

    @contextmanager
    def _changing(self) -> Iterator[list[ApiKey]]:
        """Lock the file, yield its keys, and write them back."""
        if self._exists():
            check_file(self.path)
        elif not os.path.isdir(self.path.parent):  # noqa: PTH112
            raise InputError(f"There is no folder {self.path.parent}. Create it first.")
        lock = self.path.with_name(f".{self.path.name}.lock")
        with as_input_error(self.path, "cannot be written"), exclusive(lock):
            kept = self.read() if self._exists() else []
            yield kept
            text = json.dumps({"format": _FORMAT, "keys": [asdict(k) for k in kept]}, indent=2)
            with file_aside(self.path, mode=0o600) as aside, aside.open("w") as out:
                out.write(text + "\n")
                out.flush()
                os.fsync(out.fileno())

    def _exists(self) -> bool:
        return os.path.exists(self.path)  # noqa: PTH110  # pathlib raises if the folder is not readable


class Keyring:
    """The keys of a server, reloaded when their file changes.

    Parameters
    ----------
    file : KeyFile
        A readable key file.
    """

    def __init__(self, file: KeyFile) -> None:
        self._file = file
        self._seen = self._version()
        self._keys = {key.key_id: key for key in file.read()}

    def find(self, presented: str) -> ApiKey | None:
        """Return the stored key for a presented key, or None.

        Raises
        ------
        InputError
            If the file is no longer readable; no key is accepted then.
        """
        if (seen := self._version()) != self._seen:
            self._keys = {key.key_id: key for key in self._file.read()}
            self._seen = seen
        _, _, rest = presented.partition("_")
        key = self._keys.get(rest.partition("_")[0])
        # An unknown id takes as long as a wrong secret.
        expected = "0" * 64 if key is None else key.sha256
        same = hmac.compare_digest(_sha256(presented), expected)
        return key if same else None

    def _version(self) -> tuple[int, ...] | None:
        try:
            about = self._file.path.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode, about.st_uid


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()
