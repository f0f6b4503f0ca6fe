#
# This file is part of LiteTern.
#
# Copyright (c) 2026 LiteTern developers
# SPDX-License-Identifier: BSD-2-Clause

"""Muon in float32: PyTorch's own iterates in bfloat16, which CPUs without such instructions emulate at a tenth of the speed."""

import torch

COEFFICIENTS = (3.4445, -4.7750, 2.0315) # Keller Jordan's quintic.
ITERATIONS   = 5
TINY         = 1e-7

def orthogonal(update):
    """Newton-Schulz iteration of matrices `[n, rows, columns]` towards their nearest orthogonal ones."""
    a, b, c = COEFFICIENTS
    wide    = update if update.shape[1] <= update.shape[2] else update.mT
    wide    = wide/wide.norm(dim=(1, 2), keepdim=True).clamp(min=TINY)
    for _ in range(ITERATIONS):
        gram = wide @ wide.mT
        wide = a*wide + (b*gram + c*(gram @ gram)) @ wide
    return wide if update.shape[1] <= update.shape[2] else wide.mT

class Muon32(torch.optim.Optimizer):
    """As torch.optim.Muon with adjust_lr_fn="original" (Nesterov momentum), and with its state; matrices of a shape go together."""
    def __init__(self, params, lr, weight_decay, momentum=0.95):
        super().__init__(params, {"lr": lr, "weight_decay": weight_decay, "momentum": momentum})

    @torch.no_grad()
    def step(self):
        for group in self.param_groups:
            momentum, shapes = group["momentum"], {}
            for p in group["params"]:
                if p.grad is not None:
                    shapes.setdefault(tuple(p.shape), []).append(p)
            for (rows, columns), params in shapes.items():
                updates = []
                for p in params:
                    buffer = self.state[p].setdefault("momentum_buffer", torch.zeros_like(p))
                    buffer.lerp_(p.grad, 1 - momentum)
                    updates.append(p.grad.lerp(buffer, momentum))
                rate = group["lr"]*max(1, rows/columns)**0.5
                for p, update in zip(params, orthogonal(torch.stack(updates))):
                    p.mul_(1 - group["lr"]*group["weight_decay"]).add_(update, alpha=-rate)
