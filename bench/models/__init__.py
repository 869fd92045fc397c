"""A model server that costs its client nothing it does not have to, and the bare clients that ours stands beside."""
