"""State by value and callables by value: `@state`, strict value keys, `bind`, `stable`.

Floor 7: imports judgement, facts and the ground; boundaries key their static arguments with it.
"""
