#!/usr/bin/env python3
"""Times PyTorch's cuDNN attention on the shapes of cuda_kernels_bench: causal, grouped-query, forward and backward,
deterministic and not. Prints a table and writes JSON to the path given."""
import json
import os
import sys

import torch
from torch.nn.attention import SDPBackend, sdpa_kernel

SHAPES = [(16, 28, 4, 1024, 128), (16, 16, 2, 1024, 128), (4, 28, 4, 4096, 128), (2, 32, 8, 8192, 128)]


def median_ms(run, repeats=20):
    for _ in range(3):
        run()
    times = []
    for _ in range(repeats):
        start, end = torch.cuda.Event(enable_timing=True), torch.cuda.Event(enable_timing=True)
        start.record()
        run()
        end.record()
        end.synchronize()
        times.append(start.elapsed_time(end))
    return sorted(times)[repeats // 2]


rows = []
for sequences, heads, kv_heads, length, dim in SHAPES:
    def tensor(h):
        # [sequences, length, heads, dim] in memory, as a projection leaves it.
        data = torch.randn(sequences, length, h, dim, device="cuda", dtype=torch.bfloat16)
        return data.transpose(1, 2).requires_grad_()

    q, k, v = tensor(heads), tensor(kv_heads), tensor(kv_heads)
    gradient = torch.randn(sequences, length, heads, dim, device="cuda", dtype=torch.bfloat16).transpose(1, 2)
    flops = 2 * sequences * heads * dim * length * length
    for deterministic in (False, True):
        torch.use_deterministic_algorithms(deterministic, warn_only=True)
        with sdpa_kernel(SDPBackend.CUDNN_ATTENTION):
            attend = lambda: torch.nn.functional.scaled_dot_product_attention(q, k, v, is_causal=True, enable_gqa=True)
            forward = median_ms(attend)
            out = attend()
            backward = median_ms(lambda: torch.autograd.grad(out, (q, k, v), gradient, retain_graph=True))
        rows.append({"sequences": sequences, "heads": heads, "kv_heads": kv_heads, "length": length, "head_dim": dim,
                     "deterministic": deterministic, "forward_ms": forward, "backward_ms": backward})
        print(f"pytorch {sequences}x{length} {heads}/{kv_heads} d{dim} deterministic {deterministic}: forward {forward:.3f} ms "
              f"{flops / forward / 1e9:.0f} TFLOP/s, backward {backward:.3f} ms {2.5 * flops / backward / 1e9:.0f} TFLOP/s")
if len(sys.argv) > 1:
    partial = f"{sys.argv[1]}.{os.urandom(8).hex()}.tmp"
    with open(partial, "x") as file:  # whole or not at all
        json.dump(rows, file, indent=1)
    os.replace(partial, sys.argv[1])
