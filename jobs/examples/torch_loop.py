"""MaxEnt inside an existing training loop of torch: the network stays at its goal, and its mutations go everywhere.

    python jobs/examples/torch_loop.py        needs torch

A network steers a point for 20 steps. Torch trains it to end at the goal, by backpropagation through the steps. Every
step of that loop is followed by one generation of MaxEnt, for which the behaviour is the place where a mutation ends.
"""

import torch
from torch.func import functional_call, vmap
from torch.nn.utils import parameters_to_vector, vector_to_parameters

import ees_mpi

torch.manual_seed(0)
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


es = ees_mpi.Strategy(parameters_to_vector(net.parameters()).detach(), "maxent", size=200, std=0.05, optimizer=SLOW)
for step in range(101):
    loss = (end(parameters_to_vector(net.parameters())) - goal).square().sum()
    optimizer.zero_grad()
    loss.backward()
    optimizer.step()

    es.mean = parameters_to_vector(net.parameters()).detach()
    behavior = vmap(end)(torch.from_numpy(es.ask())).numpy()
    es.tell(behavior)
    vector_to_parameters(torch.from_numpy(es.mean.copy()), net.parameters())
    if step % 50 == 0:
        print(f"step {step}: loss {loss.item():.4f}, the ends of mutations differ by {behavior.std(axis=0).mean():.3f}")
