"""All settings of the server, by flag and by environment."""

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
        raise ValueError("an origin looks like https://shop.example")
    return text.rstrip("/")


_Words = Annotated[tuple[str, ...], NoDecode]
_Origins = Annotated[tuple[Annotated[str, AfterValidator(_as_origin)], ...], NoDecode]


class ServerSettings(BaseSettings):
    """How the server runs; what is not given comes from ``SUREREC_SERVE_…``, else from here.

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
    """The model folder; a link to one may be changed and reloaded."""
    host: str = Field("127.0.0.1", min_length=1)
    """The address to listen on."""
    port: int = Field(8000, ge=0, le=65535)
    """The port; 0 takes a free one."""
    workers: int = Field(default_factory=lambda: min(available_threads(), 4), ge=1, le=64)
    """Worker processes."""
    threads: int = Field(2, ge=1, le=64)
    """Requests that a worker computes at a time."""
    queue: int = Field(64, ge=0, le=10_000)
    """Requests that may wait in a worker; more get 503."""
    request_timeout: float = Field(10.0, gt=0, le=600)
    """Seconds that an answer may take to compute."""
    receive_timeout: float = Field(10.0, gt=0, le=600)
    """Seconds that a request may take to arrive."""
    keep_alive: float = Field(30.0, gt=0, le=600)
    """Seconds that an idle connection is kept."""
    shutdown_timeout: float = Field(20.0, gt=0, le=600)
    """Seconds that requests get to end when the server stops."""
    worker_timeout: float = Field(30.0, ge=1, le=600)
    """Seconds after which a silent worker is replaced."""
    max_body: int = Field(262_144, ge=1_024, le=1 << 26)
    """Bytes that a request's body may have."""
    max_connections: int = Field(1_000, ge=1, le=100_000)
    """Connections that a worker holds; more get 503."""
    keys: Path | None = None
    """The file of API keys; see `surerec keys`."""
    insecure_admin: bool = False
    """Accept events and admin requests without a key, on loopback."""
    rate: float = Field(100.0, gt=0, le=1e6)
    """Requests a second for each API key."""
    burst: int = Field(200, ge=1, le=1_000_000)
    """Requests that a key may make at once."""
    cors_origins: _Origins = ()
    """Origins whose pages may call the API; with commas. None by default."""
    allowed_hosts: _Words = ()
    """Names that clients may call the server by; with commas."""
    log_level: Literal["info", "warning", "error"] = "info"
    """What is logged."""
    log_format: Literal["auto", "json", "text"] = "auto"
    """auto: text on a terminal, else JSON lines."""

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
                f"Listening on {self.host} lets others in, so API keys are needed: make one with "
                "`surerec keys create FILE --name NAME` and give --keys FILE"
            )
        if self.insecure_admin and self.keys is not None:
            raise ValueError(
                "--insecure-admin works without --keys only: with keys, events and admin requests "
                "need one of that scope"
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
        """The names that a ``Host`` header may have; none means any.

        On loopback without keys a web page could otherwise point a name of its own at this
        machine and read people's histories through a visitor's browser.
        """
        if self.allowed_hosts or not self.is_loopback or self.keys is not None:
            return self.allowed_hosts
        return _LOOPBACK_NAMES


def read_settings(**given: Any) -> ServerSettings:
    """Return the server's settings, from flags, then the environment, then the defaults.

    Parameters
    ----------
    **given
        What the flags say; None means not given.

    Raises
    ------
    InputError
        If a setting cannot be used; the sentence names its flag and its variable.

    Examples
    --------
    >>> read_settings(model="films", port=99999)
    Traceback (most recent call last):
    ...
    surerec.errors.InputError: --port (SUREREC_SERVE_PORT) is 99999: input should be less than ...
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
        words = message[:1].lower() + message[1:]
        raise InputError(f"{flag} ({variable}) is {first['input']!r}: {words}.") from None
