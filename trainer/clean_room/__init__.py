"""Clean room: a program evaluated on stored rows by a process that holds no user code and nothing else of Trainwright.

`python -I -S -B clean_room/__main__.py` reads an order (JSON) from stdin and prints one JSON object. The files here
import each other, Python's own library, numpy and onnxruntime (torch where a program is a torch.export archive), so the
folder also works alone: a final model carries a copy of it.

    metrics     the built-in metrics in numpy by name; the engine computes its own by the same code
    counts      those of predicted classes, also of two, of labels and of masks
    ranks       those of order: areas, rank correlation
    probabilities  those of how likely the classes are said to be
    numbers     those of numbers
    images      those of pictures
    names       parts of metrics' names
    losses      the built-in losses in numpy, as sums and counts of every row
    rows        the rows that planning fixed: files checked by SHA-256, memory-mapped
    programs    ONNX and torch.export programs: bytes checked by SHA-256, then run on the CPU
    archives    a torch.export archive without what could run code when torch loads it
    comparison  what is kept of each batch of outputs and targets, and the metrics that follow
    intervals   95 % intervals of numbers, by resampling the rows
    slices      the same numbers for rows with a value in a column, and counts of each class
    paired      two programs on the same rows: McNemar's table, moments and intervals of their differences
    evaluation  a program over the rows of each split
    shipped     the same for a stranger who holds a final model's folder and perhaps its rows

The order: `program` (path, form, digest, inputs, outputs), `rows` (folder, record), `splits`, `metrics`, `loss`
(name, args), `task`, `tasks` (of several
tasks, as configured: loss, outputs, target, weight, metrics), `slices` and `groups` (name, tests of columns), `beside`
(another program), `threads`, `libraries`.

The answer: `splits` by name with `size`, `rows`, `metrics`, `intervals` (95 %), `not_computed` (name: why),
`slices` (name: rows, metrics), `classes` and `beside` (the other program's metrics, and `paired`);
`versions`; `seconds`. Or `problem` and `remedy`, one sentence each.
"""
