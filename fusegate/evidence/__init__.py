"""What a compiled program shows of itself: `evidence`, `measure`, and the pins that hold a suite to both.

Floor 10: imports the reports (for their table layout), the boundaries and everything below.
"""
