"""The checks of `agggen doctor`: whether a job can run on this machine, and how to fix problems.

For each area, a function in `machine`, `cluster`, `tracking` or `store` yields findings; `areas` runs each function in
a child process with a time limit.
"""
