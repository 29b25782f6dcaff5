"""What `make check` checks beyond the tools that others wrote."""
