"""The language of a file, by its name and its first line."""

from __future__ import annotations

# The package ``identify`` does not replace these tables: it lacks 49 of 210 suffixes, 17 of 65
# names and 22 of 35 interpreters, names no languages, and every hook would have to install it.
_BY_SUFFIX = {
    "Ada": "adb ads",
    "Assembly": "asm s",
    "Astro": "astro",
    "Batch": "bat cmd",
    "C": "c h",
    "C#": "cs csx",
    "C++": "cc cpp cppm cxx c++ hh hpp hxx h++ inl ipp ixx tpp",
    "CMake": "cmake",
    "COBOL": "cbl cob",
    "CSS": "css",
    "CSV": "csv tsv",
    "CUDA": "cu cuh",
    "Clojure": "clj cljc cljs edn",
    "CoffeeScript": "coffee",
    "Common Lisp": "lisp lsp",
    "Crystal": "cr",
    "Cython": "pxd pxi pyx",
    "D": "d",
    "Dart": "dart",
    "Diff": "diff patch",
    "Elixir": "ex exs",
    "Elm": "elm",
    "Emacs Lisp": "el",
    "Erlang": "erl hrl",
    "F#": "fs fsi fsx",
    "Fortran": "f f03 f08 f77 f90 f95 for",
    "GLSL": "frag glsl vert",
    "Gettext": "po pot",
    "Go": "go",
    "GraphQL": "gql graphql",
    "Groovy": "gradle groovy",
    "HCL": "hcl tf tfvars",
    "HTML": "htm html xhtml",
    "Haskell": "hs lhs",
    "INI": "cfg conf ini properties",
    "JSON": "geojson json json5 jsonc jsonl ndjson webmanifest",
    "Java": "java",
    "JavaScript": "cjs js jsx mjs",
    "Jinja": "j2 jinja jinja2",
    "Julia": "jl",
    "Jupyter Notebook": "ipynb",
    "Kotlin": "kt kts",
    "Less": "less",
    "Lua": "lua",
    "M4": "ac m4",
    "Makefile": "mak mk",
    "Markdown": "markdown md mdown mdx",
    "Nim": "nim",
    "Nix": "nix",
    "OCaml": "ml mli",
    "Objective-C": "m mm",
    "PHP": "php php3 php4 php5 php7 phps phtml",
    "Pascal": "dpr pas pp",
    "Perl": "pl pm t",
    "PowerShell": "ps1 psd1 psm1",
    "Prolog": "pro prolog",
    "Protocol Buffers": "proto",
    "Python": "py pyi pyw",
    "R": "r rmd",
    "Racket": "rkt",
    "Ruby": "gemspec rake rb ru",
    "Rust": "rs",
    "SCSS": "sass scss",
    "SQL": "sql",
    "SVG": "svg",
    "Scala": "sbt sc scala",
    "Scheme": "scm ss",
    "Shell": "bash bats fish ksh sh zsh",
    "Solidity": "sol",
    "Starlark": "bzl star",
    "Svelte": "svelte",
    "Swift": "swift",
    "TOML": "toml",
    "TSX": "tsx",
    "Tcl": "tcl",
    "TeX": "bib cls latex sty tex",
    "Text": "log txt",
    "Thrift": "thrift",
    "TypeScript": "cts mts ts",
    "V": "v",
    "VHDL": "vhd vhdl",
    "Verilog": "sv svh vh",
    "Vim Script": "vim",
    "Visual Basic": "bas vb vbs",
    "Vue": "vue",
    "WebAssembly": "wat",
    "XML": "plist rss wsdl xml xsd xsl xslt",
    "YAML": "yaml yml",
    "Zig": "zig",
    "reStructuredText": "rest rst",
    "AsciiDoc": "adoc asciidoc",
}
_BY_NAME = {
    "Batch": "autoexec.bat",
    "CMake": "cmakelists.txt",
    "Dockerfile": "containerfile dockerfile",
    "Go module": "go.mod go.work",
    "Groovy": "jenkinsfile",
    "Ignore list": ".dockerignore .eslintignore .gitignore .npmignore .prettierignore",
    "Git attributes": ".gitattributes",
    "Git config": ".gitconfig .gitmodules",
    "INI": ".editorconfig .flake8 .npmrc .pylintrc pip.conf",
    "JSON": ".babelrc .eslintrc .prettierrc composer.lock",
    "Just": "justfile",
    "Makefile": "bsdmakefile gnumakefile makefile",
    "Meson": "meson.build meson.options meson_options.txt",
    "Procfile": "procfile",
    "Ruby": "brewfile capfile fastfile gemfile guardfile podfile rakefile vagrantfile",
    "Shell": ".bash_profile .bashrc .profile .zshrc configure",
    "Starlark": "build.bazel module.bazel tiltfile workspace.bazel",
    "TOML": "cargo.lock poetry.lock uv.lock pipfile",
    "Text": "authors changelog changes contributing copying license licence notice readme todo",
    "YAML": ".clang-format .clang-tidy",
}  # fmt: skip
#: Names that count only in these capitals: a folder or a list may be called ``build``, too.
_IN_CAPITALS = {"BUILD": "Starlark", "WORKSPACE": "Starlark"}
_BY_INTERPRETER = {
    "bash": "Shell", "dash": "Shell", "ksh": "Shell", "sh": "Shell", "zsh": "Shell",
    "fish": "Shell", "python": "Python", "pypy": "Python", "node": "JavaScript",
    "nodejs": "JavaScript", "deno": "TypeScript", "bun": "TypeScript", "ts-node": "TypeScript",
    "ruby": "Ruby", "perl": "Perl", "php": "PHP", "lua": "Lua", "luajit": "Lua",
    "rscript": "R", "tclsh": "Tcl", "wish": "Tcl", "awk": "Awk", "gawk": "Awk",
    "make": "Makefile", "osascript": "AppleScript", "julia": "Julia", "elixir": "Elixir",
    "escript": "Erlang", "groovy": "Groovy", "pwsh": "PowerShell", "guile": "Scheme",
    "racket": "Racket", "swift": "Swift", "scala": "Scala", "nix-shell": "Nix",
}  # fmt: skip
_SUFFIXES = {suffix: name for name, all_of in _BY_SUFFIX.items() for suffix in all_of.split()}
_NAMES = {file: name for name, all_of in _BY_NAME.items() for file in all_of.split()}
_LOWER = {name.lower(): name for name in _BY_SUFFIX} | {
    suffix.lstrip(".").lower(): name for suffix, name in _SUFFIXES.items()
}

#: An unknown language.
OTHER = "Other"
#: Languages that describe and configure rather than compute.
DATA = frozenset((
    "AsciiDoc", "CMake", "CSS", "CSV", "Diff", "Dockerfile", "Gettext", "Git attributes",
    "Git config", "Go module", "HTML", "INI", "Ignore list", "JSON", "Jinja", "Jupyter Notebook",
    "Just", "Less", "Makefile", "Markdown", "Meson", "Other", "Procfile", "SCSS", "SVG", "TOML",
    "TeX", "Text", "XML", "YAML", "reStructuredText",
))  # fmt: skip
#: Languages that compute.
CODE = frozenset((*_BY_SUFFIX, *_BY_INTERPRETER.values())) - DATA


def language(path: str, first_line: bytes | str = b"") -> str:
    """The language of the file at ``path``, by its name, else by its ``first_line``."""
    written = path.rpartition("/")[2]
    name = written.lower()
    guess = _IN_CAPITALS.get(written) or _NAMES.get(name)
    if guess is None:
        stem, dot, suffix = name.rpartition(".")
        if dot and suffix in _SUFFIXES:
            guess = _SUFFIXES[suffix]
        elif name.startswith(("dockerfile.", "containerfile.")):
            guess = "Dockerfile"
        elif dot and suffix in ("in", "tmpl", "template", "example", "dist", "sample") and stem:
            guess = language(written[: len(stem)])
    if guess is not None and guess != OTHER:
        return guess
    return _interpreted(first_line)


def language_of_fence(word: str) -> str:
    """The language that a block of code in Markdown names, as ``js`` or ``python``."""
    return _LOWER.get(word.lower(), OTHER) if word else OTHER


def is_known(path: str) -> bool:
    """Whether the name alone shows the language of a file."""
    return language(path) != OTHER


def is_code(path: str) -> bool:
    """Whether the name of a file shows a language that computes."""
    return language(path) not in DATA


def _interpreted(first_line: bytes | str) -> str:
    """The language of the interpreter that a script names: ``#!/usr/bin/env -S python3 -u``."""
    line = first_line if isinstance(first_line, str) else first_line[:256].decode("latin-1")
    if not line.startswith("#!"):
        return "XML" if line.startswith("<?xml") else "PHP" if line.startswith("<?php") else OTHER
    for word in line[2:].split():
        tool = word.rpartition("/")[2].lower()
        if tool == "env" or tool.startswith("-") or "=" in tool:
            continue
        return _BY_INTERPRETER.get(tool.rstrip("0123456789."), OTHER)
    return OTHER
