"""Entry point of ``python -m surerec`` and of the command ``surerec``."""

import sys


def main() -> None:
    """Run the command line; ``--version`` alone imports nothing else."""
    if sys.argv[1:] == ["--version"]:
        from surerec._version import __version__  # noqa: PLC0415

        sys.stdout.write(f"surerec {__version__}\n")
        return
    try:
        from surerec.cli import main as run  # noqa: PLC0415
    except KeyboardInterrupt:
        sys.stderr.write("Interrupted.\n")
        sys.exit(130)
    except MemoryError:
        sys.stderr.write("Error: not enough memory to start.\n")
        sys.exit(2)
    run()


if __name__ == "__main__":
    main()
