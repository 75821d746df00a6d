"""The `agggen` command: one module a command, which parses, calls and prints. Heavy imports stay inside functions."""
