"""The documents of a step, in the two forms that the peers train on.

packed: whole documents side by side in rows, as the bench has them; attention and positions begin anew at each.
padded: one document a row, each padded to the longest of the step, and that to a multiple of 8. Padding lies behind what is
        real, so causal attention hides it without a mask, and the fastest kernels run; the loss leaves it out. The documents
        of all steps are dealt out at random: rows are fitted, so that those of a step are of like lengths, and to pad them
        would cost less than it costs whoever draws documents from a set.
"""
import random

import torch
from torch.nn.attention.flex_attention import create_block_mask

FORMS = ("packed", "padded")
IGNORED, MULTIPLE = -100, 8


def tokens_of(spec, device):
    """Of each batch, its rows as lists of documents: both forms have the same."""
    return [[[torch.randint(spec["drawn"], (count,), device=device) for count in row] for row in batch] for batch in spec["documents"]]


def room(rows, length, value, device):
    return torch.full((rows, length), value, dtype=torch.long, device=device)


def packed(rows, length, device, blocks):
    """ids, targets, positions and which keys a query sees: as flex_attention's blocks, or dense."""
    ids, targets = room(len(rows), length, 0, device), room(len(rows), length, IGNORED, device)
    positions, owner = room(len(rows), length, 0, device), room(len(rows), length, -1, device)
    for row, documents in enumerate(rows):
        at = 0
        for index, tokens in enumerate(documents):
            end = at + len(tokens)
            ids[row, at:end], targets[row, at:end - 1] = tokens, tokens[1:]
            positions[row, at:end], owner[row, at:end] = torch.arange(len(tokens), device=device), index
            at = end
    return ids, targets, positions, block_mask(owner) if blocks else dense_mask(owner)


def dense_mask(owner):
    return (owner[:, None, :, None] == owner[:, None, None, :]).tril()


def block_mask(owner):
    def sees(row, head, query, key):
        return (owner[row, query] == owner[row, key]) & (query >= key)

    return create_block_mask(sees, len(owner), None, owner.shape[1], owner.shape[1], device=owner.device)


def dealt(batches):
    """As many batches of the same documents, in no order, each with as many as the others, or one more."""
    documents = [tokens for rows in batches for row in rows for tokens in row]
    random.Random(1).shuffle(documents)
    return [[documents[index::len(batches)]] for index in range(len(batches))]


def padded(rows, device):
    documents = [tokens for row in rows for tokens in row]
    longest = -(-max(map(len, documents)) // MULTIPLE) * MULTIPLE
    ids, targets = room(len(documents), longest, 0, device), room(len(documents), longest, IGNORED, device)
    for row, tokens in enumerate(documents):
        ids[row, :len(tokens)], targets[row, :len(tokens) - 1] = tokens, tokens[1:]
    return ids, targets


def micro_batches(ids, targets, count):
    """Parts of a batch, each with its share of the targets that count: the weighted losses add up to the whole one's."""
    counted = (targets != IGNORED).sum()
    return [((some, theirs), float((theirs != IGNORED).sum() / counted))
            for some, theirs in zip(ids.tensor_split(count), targets.tensor_split(count))]
