"""Which files decide what green means."""
