"""What tests share: services on loopback, builders of repositories, stages, judges."""
