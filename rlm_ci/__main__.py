"""``python -m rlm_ci``."""

from rlm_ci.cli import main

if __name__ == "__main__":
    raise SystemExit(main())
