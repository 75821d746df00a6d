"""Looks whether a machine can do what it is meant for, and says what to do where it cannot.

`settings` is what a job would use, `areas` lists the checks (a module an area), `running` runs them side by side,
`report` makes one thing of what they said. `agggen doctor` is the command.
"""
