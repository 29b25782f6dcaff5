"""API keys: made once, shown once, kept as hashes, compared in constant time."""

from __future__ import annotations

import hashlib
import hmac
import json
import os
import secrets
import shlex
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING, Final

from surerec._files import file_aside
from surerec._inputs import check_file, parse_json, read_whole, reason
from surerec._lock import exclusive
from surerec.errors import InputError

if TYPE_CHECKING:
    from collections.abc import Iterator


SCOPES: Final = ("read", "events", "admin")
_FORMAT: Final = "surerec-keys"
_MOST_KEYS: Final = 500
_OTHERS: Final = 0o077


@dataclass(frozen=True)
class ApiKey:
    """What is kept of a key; not the key."""

    key_id: str
    """Its public part: in logs and lists."""
    name: str
    scopes: tuple[str, ...]
    """"read", "events" (send them), "admin", which may do all."""
    sha256: str
    """Of the whole key. It has 256 random bits, so that no slow hash is needed."""
    created: str

    def may(self, scope: str) -> bool:
        """Tell whether it opens what needs that scope."""
        return scope in self.scopes or "admin" in self.scopes


class KeyFile:
    """The file of API keys, readable only by its owner.

    Parameters
    ----------
    path : path
        Made by the first :meth:`create`.

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
        """Give all keys."""
        if not self._is_there():
            raise InputError(
                f"There is no key file {self.path}; make one with "
                f"`surerec keys create {self.path} --name NAME`."
            )
        check_file(self.path)
        self._refuse_shared()
        raw = read_whole(self.path)
        try:
            content = parse_json(raw)
            if content["format"] != _FORMAT:
                raise ValueError(content["format"])  # noqa: TRY301  # said below
            return [_key(entry) for entry in content["keys"]]
        except (ValueError, TypeError, KeyError):
            raise InputError(
                f"{self.path} is no file of API keys, or a damaged one; restore it from a copy, or "
                "name another."
            ) from None

    def create(self, name: str, scopes: list[str] | tuple[str, ...] = ("read",)) -> str:
        """Add a key, and give it: it is not kept, and cannot be shown again."""
        for scope in scopes:
            if scope not in SCOPES:
                raise InputError(f"There is no scope {scope!r}; choose among {', '.join(SCOPES)}.")
        if not name.strip() or len(name) > 100:  # noqa: PLR2004
            raise InputError("A key needs a name, of at most 100 characters: who will use it?")
        key_id = secrets.token_hex(4)
        key = f"sr_{key_id}_{secrets.token_urlsafe(32)}"
        now = datetime.now(UTC).isoformat(timespec="seconds")
        made = ApiKey(key_id, name, tuple(dict.fromkeys(scopes)), _sha256(key), now)
        with self._locked():
            kept = self.read() if self._is_there() else []
            if len(kept) >= _MOST_KEYS:
                raise InputError(f"{self.path} holds {_MOST_KEYS} keys; revoke some first.")
            self._write([*kept, made])
        return key

    def revoke(self, key_id: str) -> ApiKey:
        """Take a key back; running servers notice at once."""
        with self._locked():
            kept = self.read()
            gone = [key for key in kept if key.key_id == key_id]
            if not gone:
                raise InputError(
                    f"{self.path}: there is no key {key_id!r}; see `surerec keys list`."
                )
            self._write([key for key in kept if key.key_id != key_id])
        return gone[0]

    def _is_there(self) -> bool:
        try:
            self.path.stat()
        except FileNotFoundError:
            return False
        except (OSError, ValueError):
            pass  # something is, and whoever looks closer says what
        return True

    def _refuse_shared(self) -> None:
        """Refuse a file that others may read or write: it says who may ask, and can be added to."""
        if os.name != "posix":
            return
        about, quoted = self.path.stat(), shlex.quote(str(self.path))
        if about.st_uid != os.geteuid():
            raise InputError(
                f"{self.path}: this key file belongs to another user; make it yours with "
                f"`chown {os.geteuid()} {quoted}`."
            )
        if about.st_mode & _OTHERS:
            raise InputError(
                f"{self.path}: others can read or write this key file; close it to them with "
                f"`chmod 600 {quoted}`."
            )

    @contextmanager
    def _locked(self) -> Iterator[None]:
        if self._is_there():
            check_file(self.path)
        elif not os.path.isdir(self.path.parent):  # noqa: PTH112  # pathlib's raises where closed
            raise InputError(f"{self.path.parent}: there is no such folder.")
        with ExitStack() as stack:
            try:
                lock = self.path.with_name(f".{self.path.name}.lock")
                stack.enter_context(exclusive(lock))
            except OSError as error:
                raise self._cannot_write(error) from error
            yield

    def _write(self, keys: list[ApiKey]) -> None:
        text = json.dumps({"format": _FORMAT, "keys": [asdict(key) for key in keys]}, indent=2)
        try:
            with file_aside(self.path, mode=0o600) as aside, aside.open("w") as out:
                out.write(text + "\n")
                out.flush()
                os.fsync(out.fileno())
        except OSError as error:
            raise self._cannot_write(error) from error

    def _cannot_write(self, error: OSError) -> InputError:
        return InputError(f"{self.path}: cannot be written ({reason(error)}).")


class Keyring:
    """The keys as a server holds them: looked at anew when their file changes.

    Parameters
    ----------
    file : KeyFile
        Must be readable.
    """

    def __init__(self, file: KeyFile) -> None:
        self._file = file
        self._seen = self._version()
        self._keys = {key.key_id: key for key in file.read()}

    def find(self, presented: str) -> ApiKey | None:
        """Give the key that was presented, if it is one of ours.

        Raises
        ------
        InputError
            If the file is no longer readable: then nobody is let in.
        """
        if (seen := self._version()) != self._seen:
            self._keys = {key.key_id: key for key in self._file.read()}
            self._seen = seen
        _, _, rest = presented.partition("_")
        key = self._keys.get(rest.partition("_")[0])
        # An unknown id takes the same time as a wrong secret.
        wanted = "0" * 64 if key is None else key.sha256
        same = hmac.compare_digest(_sha256(presented), wanted)
        return key if same else None

    def _version(self) -> tuple[int, ...] | None:
        try:
            about = self._file.path.stat()
        except OSError:
            return None
        return about.st_ino, about.st_mtime_ns, about.st_size, about.st_mode, about.st_uid


def _sha256(key: str) -> str:
    return hashlib.sha256(key.encode("utf-8", "surrogateescape")).hexdigest()


def _key(entry: dict[str, object]) -> ApiKey:
    scopes = entry["scopes"]
    if not isinstance(scopes, list) or not all(scope in SCOPES for scope in scopes):
        raise ValueError(scopes)
    texts = [entry[name] for name in ("key_id", "name", "sha256", "created")]
    if not all(isinstance(text, str) for text in texts) or len(str(entry["sha256"])) != 64:  # noqa: PLR2004
        raise ValueError(entry)
    key_id, name, sha256, created = map(str, texts)
    return ApiKey(key_id, name, tuple(map(str, scopes)), sha256, created)
