"""rlm-ci: checks, deep review and fix-until-green for pull requests that a model wrote."""

__version__ = "0.2.0"
