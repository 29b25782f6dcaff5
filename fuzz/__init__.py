"""Fuzzers that look for crashes and wrong answers; see README.md."""
