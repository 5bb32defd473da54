"""The modules that come with Python, whichever version is at work: the same answer everywhere."""

from __future__ import annotations

import sys

#: What one version has and another has not: of Python 2, gone since 3.12, new since 3.14, and what
#: only type checkers know.
_SOMETIMES_WRITTEN = (
    "BaseHTTPServer CGIHTTPServer ConfigParser Cookie HTMLParser Queue SimpleHTTPServer "
    "SocketServer StringIO Tkinter UserDict UserList __builtin__ _abcoll _dummy_thread _winreg "
    "anydbm cPickle cStringIO commands cookielib copy_reg dummy_thread dummy_threading exceptions "
    "htmlentitydefs httplib md5 robotparser sets sha thread tkFileDialog tkMessageBox urllib2 "
    "urlparse xmlrpclib "
    "aifc asynchat asyncore audioop cgi cgitb chunk crypt distutils imghdr imp lib2to3 mailcap "
    "msilib nis nntplib ossaudiodev pipes smtpd sndhdr spwd sunau telnetlib uu xdrlib "
    "annotationlib compression _typeshed __main__"
)
SOMETIMES = frozenset(_SOMETIMES_WRITTEN.split())
#: What every version has, and so shadows what a repository calls the same in another folder.
ALWAYS = frozenset(
    name
    for name in sys.stdlib_module_names - SOMETIMES
    if not name.startswith("_") or name == "__future__"
)


def is_standard(name: str) -> bool:
    """Whether ``name`` is a module of Python's own, in some version."""
    return name in ALWAYS or name in SOMETIMES or name in sys.stdlib_module_names
