#!/usr/bin/env python3
"""The twin of the workload `llama2-finetune --model tiny`: a decoder in Llama 2's shape, on made-up tokens."""

import torch
from torch import nn
from torch.nn import functional
from torch.utils.data import TensorDataset

import training

HIDDEN, LAYERS, HEADS, INNER, VOCABULARY = 288, 6, 6, 768, 32_000
HEAD = HIDDEN // HEADS
STEPS = 10


class Norm(nn.Module):
    """RMSNorm."""

    def __init__(self):
        super().__init__()
        self.weight = nn.Parameter(torch.ones(HIDDEN))

    def forward(self, x):
        return self.weight * (x * torch.rsqrt(x.pow(2).mean(-1, keepdim=True) + 1e-5))


def rotated(x, cosine, sine):
    """Rotary embedding, the halves of each head as pairs."""
    first, second = x.chunk(2, dim=-1)
    return x * cosine + torch.cat((-second, first), dim=-1) * sine


class Block(nn.Module):
    """Attention and a gated layer, each after its norm."""

    def __init__(self):
        super().__init__()
        self.query, self.key, self.value, self.output = (nn.Linear(HIDDEN, HIDDEN, bias=False) for _ in range(4))
        self.gate, self.up = (nn.Linear(HIDDEN, INNER, bias=False) for _ in range(2))
        self.down = nn.Linear(INNER, HIDDEN, bias=False)
        self.before_attention, self.before_gate = Norm(), Norm()

    def forward(self, x, cosine, sine):
        normed = self.before_attention(x)
        heads = [layer(normed).unflatten(-1, (HEADS, HEAD)).transpose(1, 2)
                 for layer in (self.query, self.key, self.value)]
        query, key, value = rotated(heads[0], cosine, sine), rotated(heads[1], cosine, sine), heads[2]
        attended = functional.scaled_dot_product_attention(query, key, value, is_causal=True)
        x = x + self.output(attended.transpose(1, 2).flatten(-2))
        normed = self.before_gate(x)
        return x + self.down(functional.silu(self.gate(normed)) * self.up(normed))


class Decoder(nn.Module):
    """Embedding, blocks, and the scores of the next token."""

    def __init__(self, length):
        super().__init__()
        self.embedding = nn.Embedding(VOCABULARY, HIDDEN)
        self.blocks = nn.ModuleList(Block() for _ in range(LAYERS))
        self.norm, self.head = Norm(), nn.Linear(HIDDEN, VOCABULARY, bias=False)
        # In its tiny form the embedding is also the output layer.
        self.head.weight = self.embedding.weight
        for parameter in self.parameters():
            if parameter.dim() > 1:
                nn.init.normal_(parameter, std=0.02)
        frequencies = 10_000.0 ** (-torch.arange(0, HEAD, 2) / HEAD)
        angles = torch.outer(torch.arange(length), frequencies).repeat(1, 2)
        self.register_buffer("cosine", angles.cos())
        self.register_buffer("sine", angles.sin())

    def forward(self, tokens):
        x = self.embedding(tokens)
        for block in self.blocks:
            x = block(x, self.cosine, self.sine)
        return self.head(self.norm(x))


def main():
    """Trains as asked."""
    # In half precision the workload's weights are of that kind too, which this loop has not.
    parser = training.options(__doc__, batch_size=4, workers=0, epochs=1, steps=STEPS, accumulate=None,
                              precisions=("default", "fp32", "tf32"))
    parser.add_argument("--sequence-length", type=training.positive, default=512)
    parser.add_argument("--sequences", type=training.positive, help="how many are made up [default: those of 10 steps]")
    arguments = parser.parse_args()
    # Sixteen sequences make a step, however few a batch has.
    arguments.accumulate = arguments.accumulate or max(1, 16 // arguments.batch_size)
    sequences = arguments.sequences or arguments.batch_size * arguments.accumulate * STEPS
    steps, device = training.begin(arguments)
    length = arguments.sequence_length
    network = Decoder(length).to(device)
    optimizer = torch.optim.AdamW(network.parameters(), lr=2e-5, weight_decay=0.01)

    steps.phase("data")
    tokens = TensorDataset(torch.randint(VOCABULARY, (sequences, length + 1)))
    loader = training.batches(arguments, device, tokens)

    def loss_of(tokens):
        scores = network(tokens[:, :-1])
        return functional.cross_entropy(scores.flatten(0, 1), tokens[:, 1:].flatten())

    def clip():
        nn.utils.clip_grad_norm_(network.parameters(), 1.0)

    training.train(arguments, steps, loader, training.Learner(arguments, device, optimizer, loss_of, clip))


if __name__ == "__main__":
    main()
