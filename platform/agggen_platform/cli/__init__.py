"""The `agggen` command: a module per subcommand, which parses, calls and prints. Heavy imports are in functions."""
