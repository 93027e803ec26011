"""Judgement: facts in, findings out, and the one place that raises or warns.

Floor 6: imports the observers' fact types and everything below; no array library, directly or late.
"""
