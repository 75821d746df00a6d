"""Checks that a job can run on this machine, and says how to fix what would stop it.

`settings` is what the job would use. Each area (`packages`, `accelerator`, `cluster`, `tracking`, `store`, `data`,
`disk`) is a module with a function `check` that yields findings; `areas` runs each area in a child process with a time
limit; `report` combines the findings. The command is `agggen doctor`.
"""
