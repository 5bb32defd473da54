"""The projects in which bugs are planted: libraries that every installation has, and their use.

``probes`` are expressions over the public API. What one gives with a change and without shows a
bug: each planted bug has one, and harmless edits have none.
"""

from __future__ import annotations

from rlm_ci.values import Value


class Project(Value):
    """A distribution, its package, the modules that are edited, and how it is used.

    ``needs`` are the distributions that it imports.
    """

    name: str
    package: str
    setup: str
    probes: tuple[str, ...]
    needs: tuple[str, ...] = ()


_MARKDOWN = (
    "# Title\n\nSome *text* with `code`.\n",
    "- a\n- b\n  - c\n\n1. x\n2. y\n",
    "> quote\n> more\n\n---\n",
    "[a](/b 'c') ![d](e \"f\") <https://g.h>\n",
    "***a** b*  \nc\\*d\n",
    "```py\nx = 1\n```\n\n    indented\n\ttab\n",
    "| a | b |\n|:--|--:|\n| 1 | \\| |\n",
    "&amp; &lt; &#65; &copy; &bogus;\n",
    "[x]: /y 'z'\n\n[x] [X][] [q][x]\n",
    "Set\n===\n\nTwo\n---\n",
    "<div>\n*raw*\n</div>\n\na <b>c</b>\n",
    "a\n\n\n\nb   \n#no\n####### seven\n",
    "~~gone~~ a_b_c __d__\n",
    "10) ten\n11) eleven\n\n* * *\n",
    "`` a ` b `` and ``unclosed\n",
    "[a](<b c> (d)) [e](f\\)g)\n",
)
_URLS = (
    "http://user:pass@host.example:8080/p/a/t/h?query=string#hash",
    "mailto:a@b.c",
    "//x/y",
    "/a b?c",
    "HTTP://A.B/c%20d%zz",
    "javascript:alert(1)",
    "http://[::1]:3000/x",
    "a",
    "",
    "?q#h",
    "#",
    "http://a.b/%7Bc%7D/\u00e9",
    "file:///etc/x",
    "x:1//y",
    "http://a.b.c./d",
    "http://-x_y.z/;p",
)
_PATTERNS = (
    ("*.py", "!b.py"),
    ("/src/",),
    ("doc/**/x",),
    ("**/t",),
    ("a?c", "[0-9]*"),
    ("#c", "\\#d", " "),
    ("x/", "!x/y"),
    ("foo/*",),
    ("*.[oa]", "!lib.a"),
    ("/**", "!/a"),
    ("a/**/b/",),
    ("\\!x", "y\\ "),
)
_TEMPLATES = (
    "{{ name|upper }} {{ items|join(', ') }}",
    "{% for i in items %}{{ loop.index }}:{{ i }} {% endfor %}",
    "{{ text|truncate(9) }}|{{ text|wordwrap(8) }}",
    "{{ text|indent(2) }}",
    "{{ n|filesizeformat }}",
    "{{ text|title }} {{ text|wordcount }}",
    "{{ rows|groupby('k')|list }}",
    "{{ items|batch(2)|list }}",
    "{{ items|slice(2)|list }} {{ n|round(1, 'floor') }}",
    "{{ '<a>'|escape }} {{ text|replace('a', 'b', 1) }}",
    "{{ 'see https://x.y/z and a@b.cd (www.q.de)'|urlize(12) }}",
    "{{ items|sort(reverse=true)|first }}",
    "{{ rows|map(attribute='k')|unique|list }}",
    "{% if n > 3 and not none %}y{% else %}n{% endif %}",
    "{{ d|dictsort(by='value') }} {{ d|xmlattr }}",
    "{% set x = n // 7 %}{{ x ** 2 - 1 }} {{ n is divisibleby 3 }}",
    "{%- macro m(a, b=2) -%}{{ a }}{{ b }}{%- endmacro -%}{{ m(1) }}{{ m(1, b=3) }}",
    "{{ items|sum }} {{ items|min }}",
    "{% filter lower %}AbC{% endfilter %}  {#- c -#}  x",
    "{{ text|center(30) }}|{{ text|striptags }}",
)
_SCHEMAS = (
    ("{'type': 'integer', 'minimum': 2, 'maximum': 4}", "[1, 2, 4, 5, 2.5, True, 'x']"),
    (
        "{'type': 'array', 'items': {'type': 'string'}, 'minItems': 1, 'uniqueItems': True}",
        "[[], ['a'], ['a', 'a'], [1], 'x', [['b'], ['b']]]",
    ),
    (
        "{'required': ['a'], 'properties': {'a': {'const': 1}}, 'additionalProperties': False}",
        "[{}, {'a': 1}, {'a': 2}, {'a': 1, 'b': 2, 'c': 3}]",
    ),
    (
        "{'anyOf': [{'type': 'string', 'maxLength': 2}, {'multipleOf': 3}]}",
        "['ab', 'abc', 6, 7, None]",
    ),
    ("{'oneOf': [{'minimum': 2}, {'maximum': 5}]}", "[1, 3, 7]"),
    ("{'enum': [0, False, 'a', [1], {'b': 2}]}", "[0, False, 1, 'a', [1.0], [True], {'b': 2.0}]"),
    (
        "{'patternProperties': {'^x': {'type': 'null'}}, 'minProperties': 1, 'maxProperties': 2}",
        "[{}, {'x': None}, {'x1': 1}, {'a': 1, 'b': 1, 'c': 1}]",
    ),
    ("{'if': {'minimum': 3}, 'then': {'maximum': 5}, 'else': {'const': 1}}", "[1, 2, 4, 9]"),
    (
        "{'contains': {'type': 'integer'}, 'minContains': 2, 'maxContains': 3}",
        "[[1], [1, 2], [1, 2, 3, 4], ['a']]",
    ),
    (
        "{'dependentRequired': {'a': ['b']}, 'propertyNames': {'maxLength': 2}}",
        "[{'a': 1}, {'a': 1, 'b': 2}, {'abc': 1}]",
    ),
    (
        "{'prefixItems': [{'const': 1}, {'const': 2}], 'items': False}",
        "[[1], [1, 2], [1, 3], [1, 2, 3]]",
    ),
    (
        (
            "{'unevaluatedProperties': False, 'properties': {'a': {}},"
            " 'allOf': [{'properties': {'b': {}}}]}"
        ),
        "[{'a': 1, 'b': 2}, {'c': 3, 'd': 4}]",
    ),
)
_PATCHES = (
    "--- a/x\n+++ b/x\n@@ -1,3 +1,4 @@ def f\n a\n-b\n+c\n+d\n e\n",
    "diff --git a/n b/n\nnew file mode 100644\n--- /dev/null\n+++ b/n\n@@ -0,0 +1,2 @@\n+1\n+2\n",
    "--- a/g\n+++ /dev/null\n@@ -1 +0,0 @@\n-x\n\\ No newline at end of file\n",
    "--- a/m\n+++ b/m\n@@ -1,2 +1,2 @@\n-a\n+b\n c\n@@ -9 +9,2 @@\n d\n+e\n",
    (
        "diff --git a/o b/p\nsimilarity index 90%\nrename from o\nrename to p\n--- a/o\n+++ b/p\n"
        "@@ -1 +1 @@\n-1\n+2\n"
    ),
    "--- a/x\t2020-01-01\n+++ b/x\t2020-01-02\n@@ -1,2 +1,1 @@\n a\n-b\n",
    "@@ -1 +1 @@\n-a\n",
    "Binary files a/i.png and b/i.png differ\n--- a/t\n+++ b/t\n@@ -3,2 +3,3 @@\n x\n+y\n z\n",
)

PROJECTS = (
    Project(
        "mdurl",
        "mdurl",
        "import mdurl",
        tuple(
            f"{call}({one!r})"
            for one in _URLS
            for call in ("mdurl.parse", "mdurl.encode", "mdurl.decode")
        ),
    ),
    Project(
        "markdown-it-py",
        "markdown_it",
        "from markdown_it import MarkdownIt\nmd = MarkdownIt('commonmark', {'typographer': True})"
        ".enable(['table', 'strikethrough', 'replacements', 'smartquotes'])",
        tuple(f"md.render({one!r})" for one in _MARKDOWN),
        ("mdurl",),
    ),
    Project(
        "pathspec",
        "pathspec",
        "from pathspec import GitIgnoreSpec, PathSpec\n"
        "paths = ['a.py', 'b.py', 'src/a', 'x/src/b', 'doc/x', 'doc/a/b/x', 't', 'q/t',"
        " 'abc', '9z',"
        " '#d', 'x/y', 'foo/bar/baz', 'lib.a', 'k.o', 'a', 'a/b/c', 'a/q/b/c', '!x', 'y ']",
        tuple(
            f"[p for p in paths if {kind}({list(one)!r}).match_file(p)]"
            for one in _PATTERNS
            for kind in (
                "GitIgnoreSpec.from_lines",
                "(lambda x: PathSpec.from_lines('gitignore', x))",
            )
        ),
    ),
    Project(
        "jinja2",
        "jinja2",
        "from jinja2 import Environment\nenv = Environment(trim_blocks=True)\n"
        "given = dict(name='Ada', items=[3, 1, 2, 3], n=123456, none=False, d={'b': 1, 'a': 2},"
        " text='a <b>long</b> line of\\nseveral words',"
        " rows=[{'k': 1, 'v': 'x'}, {'k': 2, 'v': 'y'},"
        " {'k': 1, 'v': 'z'}])",
        tuple(f"env.from_string({one!r}).render(given)" for one in _TEMPLATES),
        ("markupsafe",),
    ),
    Project(
        "jsonschema",
        "jsonschema",
        "from jsonschema import Draft202012Validator as V\n"
        "def said(schema, instances):\n"
        "    return [sorted(e.message for e in V(schema).iter_errors(i)) for i in instances]",
        tuple(f"said({schema}, {given})" for schema, given in _SCHEMAS),
        ("attrs", "jsonschema-specifications", "referencing", "rpds-py", "typing-extensions"),
    ),
    Project(
        "unidiff",
        "unidiff",
        "from unidiff import PatchSet\n"
        "def read(text):\n"
        "    return [(str(f), f.path, f.added, f.removed, f.is_added_file, f.is_rename,\n"
        "             [(h.source_start, h.target_length, h.section_header) for h in f])"
        " for f in PatchSet(text)]",
        tuple(f"read({one!r})" for one in _PATCHES),
    ),
)
