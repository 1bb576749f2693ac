"""What benchmarks share for their pictures."""
