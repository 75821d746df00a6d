"""The `agggen` command: modules that parse options of subcommands and print results. Slow imports are in functions."""
