"""``python -m surerec``, and the command ``surerec``."""

import sys


def main() -> None:
    """Run the command line; only the version is told without importing all of it."""
    if sys.argv[1:] == ["--version"]:
        from surerec._version import __version__  # noqa: PLC0415

        sys.stdout.write(f"surerec {__version__}\n")
        return
    from surerec.cli import main as run  # noqa: PLC0415

    run()


if __name__ == "__main__":
    main()
