"""A wiki of a repository: pages whose every statement leads to the lines that it rests on."""

from __future__ import annotations

#: What the pages, and what is kept of files, look like: a new number makes all of them anew.
VERSION = 8
#: What is known of a file: a new number has all of them read again, and keeps what was said.
FACTS = 42
