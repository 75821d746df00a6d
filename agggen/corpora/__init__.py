"""Corpora: readers for each format, a catalogue, downloads and the prepared Parquet form.

`catalogue` lists, loads and prepares the corpora, `fetch` downloads them, `prepared` is the Parquet form; `e2e`,
`webnlg`, `json_lines`, `delimited` and `segmented` each read one format; `rejects` represents invalid records.
"""
