"""Corpora: readers for each format, a catalogue, downloads and the prepared Parquet form.

`catalogue` lists and loads the corpora, `fetch` downloads them, `prepared` is the Parquet form. `elements`, `e2e`,
`webnlg`, `annotated` and `rel2text` read the corpora; `tables`, `delimited`, `json_lines` and `parquet` read the files
of users. `rejects` represents invalid records, `examine` finds likely errors in valid records.
"""
