"""Facts: what a trace was given, what was compiled, what a program holds. Nothing here decides.

Floor 5: imports the ledger, the runtime door and the ground.
"""
