"""Flight recorder dumps of PyTorch: what each rank was doing when a run hung, and who did not come.

The way of a dump: `dump.read_dump` makes a typed dump of its bytes, and never runs any of them; `summary.summary`
reduces it to what fits into one piece of evidence; `analysis.analysis` looks at the summaries of all ranks together and
says who is missing, who differs, or that nobody is. Each file states its own rules.
"""
