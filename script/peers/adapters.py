"""LoRA beside the linear layers of a frozen model, over whole weights or NF4 ones: what the peers train where the bench adapts.

Weights are frozen in the type that is computed in; adapters are fp32 under autocast, as PEFT has them.
"""
import torch
from torch import nn
from torch.nn import functional as F

BLOCK = 64  # weights that share a largest magnitude
NF4 = (-1.0, -0.6961928009986877, -0.5250730514526367, -0.39491748809814453, -0.28444138169288635, -0.18477343022823334,
       -0.09105003625154495, 0.0, 0.07958029955625534, 0.16093020141124725, 0.24611230194568634, 0.33791524171829224,
       0.44070982933044434, 0.5626170039176941, 0.7229568362236023, 1.0)


class Joined(nn.Linear):
    """Linear layers over one input as one product; an adapter sees them one by one."""

    def __init__(self, width, outs, bias):
        super().__init__(width, sum(outs), bias=bias)
        self.outs = outs


def dequantized(codes, largest, table, shape, dtype):
    values = torch.stack((table[(codes & 15).long()], table[(codes >> 4).long()]), dim=-1)
    return (values.view(-1, BLOCK) * largest[:, None]).view(shape).to(dtype)


class Nf4Product(torch.autograd.Function):
    """Keeps the packed weight alone: it is made whole again in the backward."""

    @staticmethod
    def forward(ctx, x, bias, shape, codes, largest, table):
        ctx.save_for_backward(codes, largest, table)
        ctx.shape = shape
        return F.linear(x, dequantized(codes, largest, table, shape, x.dtype), bias)

    @staticmethod
    def backward(ctx, gradient):
        return gradient @ dequantized(*ctx.saved_tensors, ctx.shape, gradient.dtype), None, None, None, None, None


class Nf4Linear(nn.Module):
    def __init__(self, linear):
        super().__init__()
        weight = linear.weight.detach()
        table = torch.tensor(NF4, device=weight.device)
        blocks = weight.float().reshape(-1, BLOCK)
        largest = blocks.abs().amax(dim=1).clamp_min(1e-30)
        codes = torch.bucketize(blocks / largest[:, None], (table[1:] + table[:-1]) / 2).to(torch.uint8).view(-1, 2)
        self.register_buffer("codes", codes[:, 0] | codes[:, 1] << 4)
        self.register_buffer("largest", largest)
        self.register_buffer("table", table)
        self.bias, self.shape, self.dtype = linear.bias, tuple(weight.shape), weight.dtype

    def forward(self, x):
        return Nf4Product.apply(x.to(self.dtype), self.bias, self.shape, self.codes, self.largest, self.table)


class Adapted(nn.Module):
    """A frozen layer, and A and B of each linear layer in it; the As lie together, so that they are one product."""

    def __init__(self, linear, rank, scale, quantize):
        super().__init__()
        device, outs = linear.weight.device, getattr(linear, "outs", [linear.out_features])
        self.base, self.rank, self.scale = Nf4Linear(linear) if quantize else linear, rank, scale
        bound = linear.in_features ** -0.5
        self.down = nn.Parameter(torch.empty(len(outs) * rank, linear.in_features, device=device).uniform_(-bound, bound))
        self.up = nn.ParameterList(torch.zeros(out, rank, device=device) for out in outs)

    def forward(self, x):
        parts = F.linear(x, self.down).split(self.rank, dim=-1)
        return self.base(x) + self.scale * torch.cat([F.linear(part, up) for part, up in zip(parts, self.up)], dim=-1)


def adapt(model, lora, dtype):
    """Adapters beside every nn.Linear; a head over classes, as the only one, stays out of 4 bits."""
    for parameter in model.parameters():
        parameter.requires_grad_(False)
        parameter.data = parameter.data.to(dtype)
    for parent in list(model.modules()):
        for name, child in list(parent.named_children()):
            if isinstance(child, nn.Linear):
                quantize = lora["quantize"] == "nf4" and name != "head"
                setattr(parent, name, Adapted(child, lora["rank"], lora["scale"], quantize))
