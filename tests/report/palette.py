"""Whether the colours of a page can be told apart: from their ground, and from each other by people who see fewer."""
import itertools

# Who lacks one kind of cone sees linear sRGB as this makes it. Machado, Oliveira, Fernandes, "A Physiologically-based Model for
# Simulation of Color Vision Deficiency", 2009, severity 1.
VISIONS = {
    "all": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "protanopia": ((0.152286, 1.052583, -0.204868), (0.114503, 0.786281, 0.099216), (-0.003882, -0.048116, 1.051998)),
    "deuteranopia": ((0.367322, 0.860646, -0.227968), (0.280085, 0.672501, 0.047413), (-0.011820, 0.042940, 0.968881)),
    "tritanopia": ((1.255528, -0.076749, -0.178779), (-0.078411, 0.930809, 0.147602), (0.004733, 0.691367, 0.303900)),
}
# Distance in CIELAB (1976); 2.3 is the least that an eye sees side by side.
APART = 20
# WCAG 2.1, AA: of text (1.4.3), of what is drawn (1.4.11).
TEXT, DRAWN = 4.5, 3

PHASES = ("forward", "loss", "backward", "optimizer")
ALIKE_BUT_FOR_COLOR = [*itertools.combinations(PHASES, 2), ("side0", "side1"), ("side0", "limit")]
ON_GROUND = [
    *((phase, ground, DRAWN) for phase in PHASES for ground in ("band", "card", "page")),
    *(("on-bar", phase, TEXT) for phase in PHASES),
    *((side, ground, DRAWN) for side in ("side0", "side1", "focus") for ground in ("card", "page")),
    *((meter, "line", DRAWN) for meter in ("side0", "side1", "limit")),
    *((ink, ground, TEXT) for ink in ("ink", "soft", "limit") for ground in ("card", "page")),
]


def linear(color):
    """'#rrggbb' as shares of light."""
    parts = [int(color[i:i + 2], 16) / 255 for i in (1, 3, 5)]
    return [part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4 for part in parts]


def contrast(one, other):
    lights = sorted(0.2126 * r + 0.7152 * g + 0.0722 * b for r, g, b in (linear(one), linear(other)))
    return (lights[1] + 0.05) / (lights[0] + 0.05)


def lab(color, vision):
    r, g, b = (min(1, max(0, sum(k * part for k, part in zip(row, linear(color))))) for row in vision)
    whites = (0.95047, 1, 1.08883)  # of sRGB, D65
    xyz = (0.4124 * r + 0.3576 * g + 0.1805 * b, 0.2126 * r + 0.7152 * g + 0.0722 * b, 0.0193 * r + 0.1192 * g + 0.9505 * b)
    x, y, z = (v ** (1 / 3) if v > 0.008856 else 7.787 * v + 16 / 116 for v in (part / white for part, white in zip(xyz, whites)))
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def distance(one, other, vision):
    return sum((a - b) ** 2 for a, b in zip(lab(one, vision), lab(other, vision))) ** 0.5


def faults(browser):
    """What is too alike in the page that the browser shows, as sentences."""
    names = {name for row in [*ALIKE_BUT_FOR_COLOR, *ON_GROUND] for name in row if isinstance(name, str)}
    color = {name: browser.run(f"page.color({name!r})") for name in names}
    found = []
    for one, other in ALIKE_BUT_FOR_COLOR:
        for who, vision in VISIONS.items():
            if (apart := distance(color[one], color[other], vision)) < APART:
                found.append(f"{one} and {other} are {apart:.0f} apart under {who}")
    for front, ground, least in ON_GROUND:
        if (ratio := contrast(color[front], color[ground])) < least:
            found.append(f"{front} on {ground} has a contrast of {ratio:.2f}, less than {least}")
    return found
