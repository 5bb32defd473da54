"""One file for each surface; the door is :func:`rlm_ci.report.render.render`."""
