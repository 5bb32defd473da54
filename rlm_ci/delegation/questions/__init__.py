"""Questions of delegated runs to people."""
