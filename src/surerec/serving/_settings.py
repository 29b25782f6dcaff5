"""Settings of the server, from options and environment variables."""

from __future__ import annotations

import ipaddress
from pathlib import Path  # noqa: TC003  # pydantic reads it
from typing import Annotated, Any, Literal, Self

from pydantic import AfterValidator, Field, ValidationError, field_validator, model_validator
from pydantic_settings import BaseSettings, NoDecode, SettingsConfigDict

from surerec._threads import available_threads
from surerec.errors import InputError

ENV_PREFIX = "SUREREC_SERVE_"
_LOOPBACK_NAMES = ("localhost", "127.0.0.1", "[::1]")


def _as_origin(text: str) -> str:
    if text != "*" and not text.startswith(("http://", "https://")):
        raise ValueError("an origin is an address such as https://shop.example")
    return text.rstrip("/")


_Words = Annotated[tuple[str, ...], NoDecode]
_Origins = Annotated[tuple[Annotated[str, AfterValidator(_as_origin)], ...], NoDecode]


class ServerSettings(BaseSettings):
    """Settings of the server; missing ones come from ``SUREREC_SERVE_…``, then from the defaults.

    Examples
    --------
    >>> settings = ServerSettings(model="films", port=9000)
    >>> settings.is_loopback, settings.hosts
    (True, ('localhost', '127.0.0.1', '[::1]'))
    """

    model_config = SettingsConfigDict(
        env_prefix=ENV_PREFIX, frozen=True, extra="forbid", use_attribute_docstrings=True
    )

    model: Path
    """The model folder, or a link to one."""
    scorer: str | None = None
    """Scorer that the folder was saved without, as package.module:object."""
    host: str = Field("127.0.0.1", min_length=1)
    """Address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """Port; 0 selects a free one."""
    workers: int = Field(default_factory=lambda: min(available_threads(), 4), ge=1, le=64)
    """Number of worker processes."""
    threads: int = Field(2, ge=1, le=64)
    """Threads per worker."""
    queue: int = Field(64, ge=0, le=10_000)
    """Requests that may wait in a worker; further ones get 503."""
    request_timeout: float = Field(10.0, gt=0, le=600)
    """Timeout of a request, in seconds."""
    receive_timeout: float = Field(10.0, gt=0, le=600)
    """Timeout for receiving a request, in seconds."""
    keep_alive: float = Field(30.0, gt=0, le=600)
    """Seconds before an idle connection is closed."""
    shutdown_timeout: float = Field(20.0, gt=0, le=600)
    """Seconds for running requests when the server stops."""
    worker_timeout: float = Field(30.0, ge=1, le=600)
    """Seconds before an unresponsive worker is restarted."""
    max_body: int = Field(262_144, ge=1_024, le=1 << 26)
    """Largest request body, in bytes."""
    max_connections: int = Field(1_000, ge=1, le=100_000)
    """Connections per worker; further ones get 503."""
    keys: Path | None = None
    """File of API keys; see `surerec keys`."""
    insecure_admin: bool = False
    """Accept events and admin requests without a key, on loopback."""
    rate: float = Field(100.0, gt=0, le=1e6)
    """Requests per second and API key."""
    burst: int = Field(200, ge=1, le=1_000_000)
    """Requests that a key may send at once."""
    cors_origins: _Origins = ()
    """Origins that may call the API, separated by commas; none by default."""
    allowed_hosts: _Words = ()
    """Accepted host names, separated by commas."""
    log_level: Literal["info", "warning", "error"] = "info"
    """Lowest level of log messages."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """Log format; auto is text on a terminal and JSON lines otherwise."""

    @field_validator("cors_origins", "allowed_hosts", mode="before")
    @classmethod
    def _split(cls, value: Any) -> Any:
        if isinstance(value, str):
            return tuple(word.strip() for word in value.split(",") if word.strip())
        return value

    @model_validator(mode="after")
    def _never_open(self) -> Self:
        if not self.is_loopback and self.keys is None:
            raise ValueError(
                f"Listening on {self.host}, which other machines can reach, needs API keys. Create "
                "one with `surerec keys create FILE --name NAME` and pass --keys FILE"
            )
        if self.insecure_admin and self.keys is not None:
            raise ValueError(
                "--insecure-admin cannot be combined with --keys. Use a key with the scope events "
                "or admin"
            )
        return self

    @property
    def is_loopback(self) -> bool:
        """Whether only this machine can connect."""
        if self.host == "localhost":
            return True
        try:
            return ipaddress.ip_address(self.host.strip("[]")).is_loopback
        except ValueError:
            return False

    @property
    def hosts(self) -> tuple[str, ...]:
        """Accepted values of the ``Host`` header; empty means any.

        On loopback without keys, a web site could otherwise resolve its own name to this machine
        and read user histories through a visitor's browser (DNS rebinding).
        """
        if self.allowed_hosts or not self.is_loopback or self.keys is not None:
            return self.allowed_hosts
        return _LOOPBACK_NAMES


def read_settings(**given: Any) -> ServerSettings:
    """Return the settings, from options, then the environment, then the defaults.

    Parameters
    ----------
    **given
        Values of the options; None means not given.

    Raises
    ------
    InputError
        If a setting is invalid; the message names its option and its variable.

    Examples
    --------
    >>> read_settings(model="films", port=99999)
    Traceback (most recent call last):
    ...
    surerec.errors.InputError: --port (SUREREC_SERVE_PORT) is 99999. Input should be less than ...
    """
    try:
        return ServerSettings(**{name: value for name, value in given.items() if value is not None})
    except ValidationError as error:
        first = error.errors()[0]
        message = str(first["ctx"]["error"]) if first["type"] == "value_error" else first["msg"]
        if not first["loc"]:
            raise InputError(f"{message}.") from None
        name = str(first["loc"][0])
        flag, variable = f"--{name.replace('_', '-')}", f"{ENV_PREFIX}{name.upper()}"
        raise InputError(f"{flag} ({variable}) is {first['input']!r}. {message}.") from None
