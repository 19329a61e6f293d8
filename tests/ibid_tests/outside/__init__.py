"""Tests of a whole array from outside, by programs that other people wrote, and by rude ones of our own."""
