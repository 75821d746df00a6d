"""Scripts that `probing.probe` runs; see there."""
