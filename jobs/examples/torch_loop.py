"""MaxEnt inside an existing training loop of torch: the network stays at its goal, and its mutations go everywhere.

    python jobs/examples/torch_loop.py        needs torch

A network steers a point for 20 steps. Torch trains it to end at the goal, by backpropagation through the steps. Every
step of that loop is followed by one generation of MaxEnt, for which the behaviour is the place where a mutation ends.
The mutations are made on the device of the network, from slices of the noise table, and their weights are computed
there. That is meant for a GPU: on a CPU, with large networks, it takes 1.6 to 2.1 times the CPU time of `ask`, as
`ask_or_draw.py` measures it.
"""

import torch
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import ees_mpi

torch.manual_seed(0)
if torch.cuda.is_available():
    torch.set_default_device("cuda")
net = torch.nn.Sequential(torch.nn.Linear(2, 16), torch.nn.Tanh(), torch.nn.Linear(16, 2), torch.nn.Tanh())
optimizer = torch.optim.Adam(net.parameters(), lr=0.003)
shapes = {name: weight.shape for name, weight in net.named_parameters()}
SLOW = {"name": "adam", "lr": 0.003}  # of MaxEnt: its steps must not undo those of the loop
goal = torch.tensor([1.0, 1.0])


def end(z):
    """Return where the point ends if the network with the weights z [D] steers it."""
    parts = torch.split(z, [shape.numel() for shape in shapes.values()])
    weights = {name: part.view(shapes[name]) for name, part in zip(shapes, parts, strict=True)}
    place = torch.zeros(2)
    for _ in range(20):
        place = place + 0.2 * functional_call(net, weights, (place,))
    return place


def mutations(drawn, count=64):
    """Yield the mutations of a draw [count, D], made on the device; together they would need much memory."""
    means, parents, offsets, signs = map(torch.tensor, (drawn.means, drawn.parent, drawn.offset, drawn.sign))
    for parent, offset, sign in zip(parents.split(count), offsets.split(count), signs.split(count), strict=True):
        yield means[parent] + (sign * drawn.std)[:, None] * rows[offset]


def mean():
    return parameters_to_vector(net.parameters()).detach().cpu()


es = ees_mpi.Strategy(mean(), size=200, std=0.05, optimizer=SLOW)
rows = torch.tensor(es.noise).unfold(0, len(es.mean), 1)  # all slices of the table, without a copy
for step in range(101):
    loss = (end(parameters_to_vector(net.parameters())) - goal).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    es.mean = mean()
    behavior = torch.cat([vmap(end)(z) for z in mutations(es.draw())]).detach()
    es.tell(weights=ees_mpi.maxent_weights(behavior).cpu())
    vector_to_parameters(torch.tensor(es.mean), net.parameters())
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.4f}, the ends of mutations differ by {behavior.std(dim=0).mean():.3f}")
