"""Helpers of the demo, the campaigns and the outside tests. Only Python's standard library is used."""
