"""Prints the code points that charts need, for `pyftsubset --unicodes-file`: see README.md."""

LEVEL_1 = [
    bytes((row, cell)).decode("gb2312")
    for row in range(0xB0, 0xD8)
    for cell in range(0xA1, 0xFF)
    if (row, cell) < (0xD7, 0xFA)
]
BEYOND_LEVEL_1 = "阈"
RANGES = [
    (0x20, 0x7E),  # ASCII
    (0xA0, 0xFF),  # Latin-1
    (0x391, 0x3C9),  # Greek
    (0x2010, 0x2027),  # dashes, quotes, ellipsis
    (0x2030, 0x205E),
    (0x2070, 0x209C),  # superscripts, subscripts
    (0x2190, 0x2199),  # arrows
    (0x21D2, 0x21D4),
    (0x2200, 0x22A5),  # mathematics
    (0x25A0, 0x25CF),  # shapes; U+25A1 stands for a glyph that is missing
    (0x3000, 0x303F),  # CJK punctuation
    (0xFF01, 0xFFEE),  # full-width forms
]

points = {ord(character) for character in [*LEVEL_1, *BEYOND_LEVEL_1]}
for first, last in RANGES:
    points.update(range(first, last + 1))
print(",".join(f"{point:04X}" for point in sorted(points)))
