#!/usr/bin/env python3
"""How much forward and backward waited, and how fast each lane went, from a comparison.json of `penstock-exec run
--compare`: a lane's busy time as predicted from the calibrated rates beside the same traffic, over the measured one."""
import json
import sys

comparison = json.load(open(sys.argv[1]))
stalls = {cause: seconds["measured"] for cause, seconds in comparison["stall_seconds_by_cause"].items()}
phases = {phase: seconds["measured"] for phase, seconds in comparison["compute_seconds_by_phase"].items()}
worked = sum(seconds for phase, seconds in phases.items() if phase != "optimizer")
waited = sum(seconds for cause, seconds in stalls.items() if cause != "optimizer")
print(f"stalls within forward and backward {waited:.3f} s = {100 * waited / worked:.2f} % of {worked:.3f} s: "
      + ", ".join(f"{cause} {seconds:.4f}" for cause, seconds in stalls.items() if seconds > 0))
for lane in comparison["lanes"]:
    busy = lane["busy_seconds"]
    if busy["measured"] > 0 and lane["lane"] in ("h2d", "d2h"):
        print(f"{lane['lane']}: busy {busy['measured']:.3f} s, as calibrated beside the same traffic "
              f"{busy['predicted']:.3f} s: {100 * busy['predicted'] / busy['measured']:.1f} % of that speed")
