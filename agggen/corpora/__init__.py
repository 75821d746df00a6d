"""Corpora: readers for each format, a catalogue, downloads and the prepared Parquet form."""
