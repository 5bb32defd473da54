"""A wiki of a repository: pages whose every statement leads to the lines that it rests on."""

from __future__ import annotations

#: What the pages, and what is kept of files, look like: a new number makes all of them anew.
VERSION = 3
