"""What runs and judges the tests, before and after: numbers, rules and jobs."""
