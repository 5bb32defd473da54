"""Can these tests still fail? Copies of them that must fail, and copies that must pass."""
