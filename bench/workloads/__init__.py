"""One module per workload; each has a ``run`` that yields rows."""
