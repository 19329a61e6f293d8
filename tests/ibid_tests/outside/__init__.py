"""Tests of a running array from outside: third-party programs, and hostile clients."""
