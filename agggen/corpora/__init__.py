"""Corpora: one reader a source behind one catalogue, prepared as Parquet.

`catalogue` names the corpora and prepares them, `fetch` downloads them, `prepared` is the Parquet form; `e2e`,
`webnlg`, `json_lines`, `delimited` and `segmented` each read one format; `rejects` holds what could not be read.
"""
