"""The only door to jax and frx, public and private.

Floor 3: imports the ground below it. Nothing here imports an array library at module level: the runtime
is whichever of frx and jax the program has imported (see `resolve`). A function that reaches a private
name says which, why there is no public route, and on which versions it ran; where the name is missing,
it answers None, and the caller reports "not observed".
"""
