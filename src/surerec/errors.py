"""The errors surerec raises on purpose; each is one sentence for the person who can mend it."""

__all__ = ["FetchError", "InputError", "NotFittedError", "StaleModelWarning", "SurerecError"]


class SurerecError(Exception):
    """Base of all errors that surerec raises on purpose.

    The command line prints the sentence and exits with code 2; a traceback would add nothing.
    """


class InputError(SurerecError, ValueError):
    """What the caller gave cannot be used: a file, a column, a value, a name."""


class NotFittedError(SurerecError, ValueError, AttributeError):
    """A recommender was asked before it was fitted; of the same bases as scikit-learn's."""


class FetchError(SurerecError, OSError):
    """A data set could not be brought: no network, a wrong checksum, a full disk."""


class StaleModelWarning(UserWarning):
    """A model serves beyond the window that it was calibrated for."""
