"""Local folders and object stores behind one interface.

`folder` reads files and writes them atomically, `claim` gives one job at a time the exclusive use of a folder,
`checkpoints` stores the verified checkpoints of a run, `bundles` copies models to and from a store.
"""
