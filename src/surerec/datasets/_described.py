"""Made-up interactions by a text, so that a command line can ask for them."""

from __future__ import annotations

import inspect
from typing import TYPE_CHECKING, Final

from surerec._shown import shown
from surerec.datasets._synthetic import synthetic
from surerec.errors import InputError

if TYPE_CHECKING:
    from surerec.interactions import Interactions

_BEGIN: Final = "synthetic"
_EXAMPLE: Final = "synthetic:n_users=3000,n_items=1500,n_rows=120000,drift=0.5"


def is_described(text: str) -> bool:
    """Tell whether a text asks for made-up interactions.

    Examples
    --------
    >>> is_described("synthetic"), is_described("synthetic:seed=4"), is_described("synthetic.csv")
    (True, True, False)
    """
    return text == _BEGIN or text.startswith(f"{_BEGIN}:")


def synthetic_of(text: str) -> Interactions:
    """Make up interactions by a text such as "synthetic:n_users=300,drift=0.5,seed=4".

    Parameters
    ----------
    text : str
        The settings of :func:`synthetic`; those that are left out keep their defaults.

    Examples
    --------
    >>> synthetic_of("synthetic:n_users=50,n_items=20,n_rows=400,drift=0.5")
    Interactions('synthetic', 50 users, 20 items, 400 rows)
    """
    known = inspect.signature(synthetic).parameters
    settings: dict[str, float] = {}
    for part in filter(None, text.partition(":")[2].split(",")):
        name, _, value = (word.strip() for word in part.partition("="))
        if name not in known:
            raise InputError(
                f"{shown(text)}: there is no setting {shown(name)}; there are {', '.join(known)}, "
                f"as in {_EXAMPLE}."
            )
        if name in settings:
            raise InputError(f"{shown(text)}: the setting {name} is there twice.")
        settings[name] = _number(value, text, name)
    return synthetic(**settings)  # type: ignore[arg-type]  # which checks them


def _number(value: str, text: str, name: str) -> float:
    plain = value.replace("_", "")
    for kind in (int, float):
        try:
            return kind(plain)
        except ValueError:
            continue
    raise InputError(f"{shown(text)}: {name} is {shown(value)}; it must be a number.")
