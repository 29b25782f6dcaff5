"""Speed and memory against peers: see README.md in this folder."""
