"""One file for each format of :func:`rlm_ci.report.render.render`."""
