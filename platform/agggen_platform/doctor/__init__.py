"""The checks of `agggen doctor`: whether a job can run on this machine, and how to fix the problems.

Each area has a function that yields findings, in `machine`, `cluster`, `tracking` or `store`; `areas` runs each in a
child process with a time limit.
"""
