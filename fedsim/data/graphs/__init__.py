"""What is taken of one graph: splits, pairs, communities, sparsity."""
