"""``python -m surerec`` is the command line."""

from surerec.cli import main

if __name__ == "__main__":
    main()
