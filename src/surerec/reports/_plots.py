"""Whether figures can be drawn here."""

from __future__ import annotations

from surerec.errors import InputError


def require_plots() -> None:
    """Say at once, before hours of work, that the figures could not be drawn.

    Raises
    ------
    InputError
        If matplotlib is not installed.
    """
    try:
        import matplotlib as mpl  # noqa: PLC0415  # an extra
    except ModuleNotFoundError as error:
        raise InputError(
            "The figures of the report need matplotlib: install surerec[plots]."
        ) from error
    del mpl
