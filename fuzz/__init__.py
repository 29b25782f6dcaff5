"""Tools that try to crash surerec, or to make it lie; see README.md."""
