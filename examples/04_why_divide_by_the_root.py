"""Why scores are divided by √d_k: without it, a query attends to fewer words the larger d_k is."""

import regard
from regard.output import text

lesson = regard.teaching.scaling_lesson(("1", "√d_k"), sizes=(4, 64, 1024))
for table in lesson.tables():
    print(text.plain(table), end="\n\n")
