"""The checks of `agggen doctor`: whether a job can run on this machine, and how to fix problems.

`areas` runs the check of each area (in `machine`, `cluster`, `tracking` or `store`) in a child process.
"""
