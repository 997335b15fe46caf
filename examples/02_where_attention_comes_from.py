"""A dictionary returns a value only if the query equals a key; replace "equals" by "is similar to": attention."""

import regard
from regard import examples
from regard.output import text

jane = regard.teaching.lookup.lookup(examples.named("jane").content)

print("hard:", jane.get("Date of birth"), "·", jane.get("birth date"))
print(text.plain(jane.soft("birth date").table()))

# Vectors from the lecture notes; the last two keys are equal. The hard look-up sums their values, the soft one averages
four = examples.named("four-words").content
vectors = regard.teaching.lookup.lookup(four["keys"], four["values"], similarity="negative distance")
query = four["keys"][2]
print("hard:", vectors.hard(query).value)
for temperature in (10, 1, 0.01):
    print(f"soft, temperature {temperature}:", vectors.soft(query, temperature).value.round(2))

# The same with the scaled dot product is softmax(q kᵀ / √d_k) v, as an Attention computes it.
A = regard.Attention([query], four["keys"])
soft = regard.teaching.lookup.lookup(four["keys"], four["values"]).soft(query)
print("attention:", (A @ four["values"]).round(2)[0], "= soft look-up:", soft.value.round(2))
