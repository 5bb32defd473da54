"""Who defines, calls and imports a name: by syntax, names and imports."""
