"""The `agggen` command: modules of subcommands that parse options and print results. Slow imports are in functions."""
