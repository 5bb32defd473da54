"""What every long command shares: pipelines, their runs, attempts."""
