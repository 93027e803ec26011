"""Declarations and the call path: decorate, call, trace, judge.

Floor 8: imports everything below it.
"""
