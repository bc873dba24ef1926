"""Codecs: half, bfloat16, int8, top_k, rand_k, one file each."""
