"""The checks of `agggen doctor`: whether a job can run on this machine, and how to fix problems."""
