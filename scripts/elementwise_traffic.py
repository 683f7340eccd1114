#!/usr/bin/env python3
"""How many times the bytes of our fused kernels the elementwise kernels of other programs move.

  elementwise_traffic.py all_benchmark_data.csv [CONFIG.json]

The file is benchmark/data/all_benchmark_data.csv of github.com/linkedin/Liger-Kernel (BSD-2-Clause): times of Hugging
Face's eager kernels ("huggingface") and of Liger's on an A100 SXM 80 GB. A time is turned into bytes at 80 % of that
card's 2039 GB/s, the rate at which elementwise kernels are predicted, and held against what shared/model/kernels.cpp
counts. Not timed there, so counted: swiglu (eager: silu, then a product), the additions of residuals, which our
products do on the way out, and in backward the sums over q, k and v and over gate and up, which are one product each
with us. Weighted by layers of CONFIG (default: Llama-3.1-8B), forward and backward together, as in
training without recompute; the loss apart. Prints the shares and `elementwise_traffic` for scenarios/software/.
"""
import csv
import json
import os
import sys

BYTES_PER_SECOND = 0.8 * 2039e9
BF16 = 2


def times(path):
    found = {}
    with open(path, newline="") as file:
        for row in csv.DictReader(file):
            if row["metric_name"] == "speed" and "A100" in row["gpu_name"]:
                key = (row["kernel_name"], row["kernel_provider"], row["kernel_operation_mode"], row["x_name"],
                       float(row["x_value"]))
                found[key] = float(row["y_value_50"]) / 1e3
    return found


def main():
    if len(sys.argv) not in (2, 3):
        sys.exit(__doc__)
    root = os.path.dirname(os.path.dirname(os.path.abspath(__file__)))
    config = sys.argv[2] if len(sys.argv) == 3 else os.path.join(root, "scenarios/models/llama-3.1-8b.json")
    with open(config) as file:
        model = json.load(file)
    hidden, intermediate = model["hidden_size"], model["intermediate_size"]
    heads, kv_heads = model["num_attention_heads"], model["num_key_value_heads"]
    columns = hidden + hidden // heads * kv_heads  # of q and k
    seconds = times(sys.argv[1])

    def measured(kernel, provider, mode, x, value, our_bytes):
        return seconds[(kernel, provider, mode, x, value)] * BYTES_PER_SECOND / our_bytes

    # Bytes of a token and layer in our kernels, forward and backward.
    norms, norms_back = 2 * 2 * hidden * BF16, 2 * 4 * hidden * BF16
    rotary = 2 * columns * BF16
    swiglu, swiglu_back = 3 * intermediate * BF16, 6 * intermediate * BF16
    ours = norms + norms_back + 2 * rotary + swiglu + swiglu_back
    rows, width = 2048, 16384                      # of the norms that were timed
    tokens, q, k = 16384, 8192, 8192 // 32 * 8     # of the rotary that was timed
    sums = (2 + 2 + 3) * 3 * hidden * BF16         # forward, backward, branches; two read and one written
    for provider, name in (("huggingface", "eager"), ("liger", "Liger")):
        norm = measured("rms_norm", provider, "forward", "H", width, 2 * rows * width * BF16)
        norm_back = measured("rms_norm", provider, "backward", "H", width, 4 * rows * width * BF16)
        rope = measured("rope", provider, "forward", "T", tokens, 2 * tokens * (q + k) * BF16)
        rope_back = measured("rope", provider, "backward", "T", tokens, 2 * tokens * (q + k) * BF16)
        gate, gate_back = (5 / 3, 9 / 6) if provider == "huggingface" else (1, 5 / 6)
        loss = measured("cross_entropy", provider, "full", "V", 131072, 16384 * 131072 * 4 * 2)  # timed in fp32
        total = (norm * norms + norm_back * norms_back + rope * rotary + rope_back * rotary + gate * swiglu +
                 gate_back * swiglu_back + sums)
        print(f"{name:6} norm {norm:.1f}, backward {norm_back:.1f}; rotary {rope:.1f}, backward {rope_back:.1f}; swiglu "
              f"{gate:.2f}, backward {gate_back:.2f}; loss {loss:.1f}; elementwise_traffic = {total / ours:.2f}")


main()
