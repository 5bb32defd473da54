"""What a finding or a document shows: fixes, proofs, tables."""
