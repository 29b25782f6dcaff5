"""scikit-learn's manners without scikit-learn: hyper-parameters are constructor arguments."""

from __future__ import annotations

import inspect
from typing import Any, Final, Self

from surerec._shown import shown
from surerec.errors import InputError

NOT_SETTINGS: Final = frozenset({"verbose"})
"""Parameters that no answer depends on."""


class Parameters:
    """Gives a class ``get_params``, ``set_params`` and a repr, so that ``sklearn.clone`` works."""

    @classmethod
    def _names(cls) -> list[str]:
        return [name for name in inspect.signature(cls).parameters if name != "self"]

    def get_params(self, deep: bool = True) -> dict[str, Any]:  # noqa: ARG002, FBT001, FBT002
        """Give the hyper-parameters by name.

        Parameters
        ----------
        deep : bool, default=True
            There for scikit-learn; no parameter is itself an estimator.
        """
        return {name: getattr(self, name) for name in self._names()}

    def settings(self) -> dict[str, Any]:
        """Return the hyper-parameters that a model is saved with: all but `verbose`."""
        return {
            name: value for name, value in self.get_params().items() if name not in NOT_SETTINGS
        }

    def set_params(self, **params: Any) -> Self:
        """Change hyper-parameters; what was learned stays."""
        for name, value in params.items():
            if name not in self._names():
                raise InputError(
                    f"{type(self).__name__} has no parameter {name!r}; "
                    f"it has {', '.join(self._names())}."
                )
            setattr(self, name, value)
        return self

    def __repr__(self) -> str:
        defaults = inspect.signature(type(self)).parameters
        changed = (
            f"{name}={self._in_words(value)}"
            for name, value in self.get_params().items()
            if not _is_default(value, defaults[name].default)
        )
        return f"{type(self).__name__}({', '.join(changed)})"

    def _in_words(self, value: Any) -> str:
        """Give what a setting looks like."""
        return shown(value)


def _is_default(value: object, default: object) -> bool:
    """Compare without asking an array whether it is equal, which has no answer."""
    return value is default or (type(value) is type(default) and value == default)
