"""MaxVar by policy gradients, beside Evolvability ES: which of the two gradients has less noise?

Gajewski et al. 2019, supplement S5, propose it. Mutations theta = mu + eps, eps ~ N(0, std^2), take random actions
a_t ~ N(f(s_t; theta), spread^2); B_k is the place at the moment t_k. Both gradients have one expectation:

    J(mu) = sum_k E|B_k - E B_k|^2
    grad J = sum_k E[ |B_k - E B_k|^2 grad log N(theta; mu, std^2) ]                             Evolvability ES
           = sum_k E[ |B_k - E B_k|^2 sum_(t <= t_k) grad log pi(a_t | s_t, mu + eps) ]          policy gradients

In the first line theta is drawn, and mu changes how likely it was. In the second eps is drawn, so that mu changes how
likely the actions were. For `scg` the two are one graph with other log-densities. (The paper prints the last line with
the term t = t_k alone; but all actions before that moment lead to the place, too.)

    python jobs/examples/policy_gradients.py [FIGURE.png]       needs torch, and matplotlib for the figure

It measures the noise of both on the same rollouts of the walker of jobs/peers, trains with each, and prints tables.
"""

import itertools
import sys
from pathlib import Path

import numpy as np
import torch

import ees_mpi
from ees_mpi.strategy import scg

sys.path.append(str(Path(__file__).resolve().parents[1] / "peers"))  # only a checkout has it
import walker

SIZE, SPREAD = 200, 0.3  # rollouts of a generation; standard deviation of the actions
SPREADS = (0.03, 0.1, 0.3, 1.0)
END, OFTEN = (60,), (10, 20, 30, 40, 50, 60)  # moments of the behaviour: the last step, or several
MOMENTS = {"at the end": END, "at six moments": OFTEN}
ES, POLICY = "Evolvability ES", "policy gradients"
SEEDS = range(5)


def roll(z, moments, spread, generator):
    """Return behaviours [N, K, 2] of networks z [N, D], what they saw [N, T, 6] and what they did [N, T, 3]."""
    network, place = walker.layers(z), torch.zeros(len(z), 1, 2)
    speed, seen, actions, places = place, [], [], []
    for clock in torch.tensor(walker.clocks()[: max(moments)]):
        seen.append(walker.sight(torch, place, speed, clock))
        expected = walker.act(torch, network, seen[-1])
        actions.append(expected + spread * torch.randn(expected.shape, generator=generator))
        place, speed = walker.move(place, speed, actions[-1], clock)
        places.append(place)
    return torch.cat(places, 1)[:, np.array(moments) - 1], torch.cat(seen, 1), torch.cat(actions, 1)


def log_policy(z, seen, actions, spread):
    """Return log pi [N, T] of the actions of networks z [N, D], up to a constant."""
    return -(actions - walker.act(torch, walker.layers(z), seen)).square().sum(2) / (2 * spread**2)


def log_normal(z, mean, std):
    """Return log N [N] of networks z [N, D], up to a constant."""
    return -(z - mean).square().sum(1) / (2 * std**2)


def variance(behavior, log_density):
    """Return the variance of behaviours [N, K, B], summed; its gradient is made with `log_density` [N, K]."""
    total = 0.0
    for k in range(behavior.shape[1]):
        z = scg.Stochastic(f"z{k}", behavior[:, k], log_density[:, k])
        other = z.twin(f"other{k}")
        far = ((z - scg.expect(other, over=other)) ** 2).sum()
        baseline = behavior[:, k].var(0, correction=0).sum()  # it takes noise from both
        total = scg.expect(far - baseline, over=z) + (total + baseline)
    return scg.estimate(total)


def gradients(mean, z, std, moments, spread, generator, names=(ES, POLICY)):
    """Return gradients [D] at the mean [D] by name, from the same rollouts of its mutations z [N, D]."""
    behavior, seen, actions = roll(z, moments, spread, generator)
    mu, found = mean.clone().requires_grad_(), {}
    for name in names:
        if name == ES:
            density = log_normal(z, mu, std)[:, None].expand(-1, len(moments))
        else:
            every = log_policy(mu + (z - mean), seen, actions, spread)
            density = every.cumsum(1)[:, np.array(moments) - 1]
        (found[name],) = torch.autograd.grad(variance(behavior, density), mu)
    return found


def mutations(mean, seed):
    """Return a Strategy that draws mutations of a mean; the steps are made here."""
    return ees_mpi.Strategy(mean, size=SIZE, std=walker.STD, seed=seed, optimizer={"name": "ascent"})


def following(es, mean):
    """Go on to the next draw, around a mean."""
    es.tell(weights=np.zeros(SIZE))
    es.mean = mean


def train(name, moments=END, spread=SPREAD, seed=0, generations=60):
    """Return the mean [D] after a training with one of the gradients, and steps of torch's Adam."""
    generator = torch.Generator().manual_seed(seed)
    with mutations(walker.start(seed), seed) as es:
        mean = torch.tensor(es.mean).requires_grad_()
        optimizer = torch.optim.Adam([mean], lr=0.01, maximize=True)
        for _ in range(generations):
            z = torch.tensor(es.ask())
            mean.grad = gradients(mean.detach(), z, walker.STD, moments, spread, generator, [name])[name]
            optimizer.step()
            following(es, mean.detach().numpy())
    return mean.detach()


def noise(mean, moments, spread, seed=0, batches=60):
    """Return by name after how many rollouts the variance of the gradient is as small as its squared length."""
    generator, found = torch.Generator().manual_seed(seed), {ES: [], POLICY: []}
    with mutations(mean.numpy(), seed) as es:
        for _ in range(batches):
            z = torch.tensor(es.ask())
            for name, gradient in gradients(mean, z, walker.STD, moments, spread, generator).items():
                found[name].append(gradient)
            following(es, mean.numpy())
    variances = {name: float(torch.stack(each).var(0).sum()) for name, each in found.items()}
    quiet = min(variances, key=variances.get)  # both have one expectation; this one knows its length best
    squared = float(torch.stack(found[quiet]).mean(0).square().sum()) - variances[quiet] / batches
    return {name: SIZE * each / squared for name, each in variances.items()}


def ends(mean, seed=0, count=2000):
    """Return the variance of where mutations end that take their actions without noise."""
    generator = torch.Generator().manual_seed(seed)
    z = mean + walker.STD * torch.randn(count, len(mean), generator=generator)
    return float(roll(z, END, 0.0, generator)[0].var(0).sum())


def middle(values):
    """Return the median of the seeds, and their range."""
    return [float(np.median(values)), float(np.min(values)), float(np.max(values))]


def measured():
    """Return noises by mean, moments and name [spreads, 3], and what trainings reach by their words [3]."""
    means = {"first mean": [torch.tensor(walker.start(seed)) for seed in SEEDS]}
    means["trained mean"] = [train(POLICY, seed=seed) for seed in SEEDS]
    noises, reached = {}, {}
    for mean, words in itertools.product(means, MOMENTS):
        found = [[noise(means[mean][s], MOMENTS[words], spread, s) for s in SEEDS] for spread in SPREADS]
        for name in (ES, POLICY):
            noises[mean, words, name] = [middle([each[name] for each in row]) for row in found]
    for name, spread in ((ES, 0.0), (ES, SPREAD), (POLICY, SPREAD), (POLICY, SPREADS[0])):
        for words, moments in MOMENTS.items():
            values = [ends(train(name, moments, spread, seed)) for seed in SEEDS]
            reached[name, f"{spread:g}, {words}"] = middle(values)
    return noises, reached


def draw(noises, reached, path):
    """Draw the noise at both means, and what the trainings reach."""
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 3, figsize=(11, 3.6), layout="constrained", width_ratios=[1, 1, 0.8])
    for (mean, words, name), values in noises.items():
        axis, (middles, low, high) = axes[int(mean == "trained mean")], np.transpose(values)
        color, style = "C0" if name == ES else "C1", "-" if words == "at the end" else "--"
        axis.plot(SPREADS, middles, style, color=color, label=f"{name}, {words}")
        axis.fill_between(SPREADS, low, high, color=color, alpha=0.15, lw=0)
        axis.set(xscale="log", yscale="log", ylim=(10, 2e5), title=mean, xlabel="standard deviation of the actions")
    axes[0].set_ylabel("rollouts until the gradient's\nnoise is as small as the gradient")
    axes[0].legend(fontsize=7, loc="upper left")
    for place, ((name, _), (value, low, high)) in enumerate(reached.items()):
        color = "C0" if name == ES else "C1"
        axes[2].errorbar(value, -place, xerr=[[value - low], [high - value]], fmt="o", color=color, capsize=2)
    axes[2].set_yticks(-np.arange(len(reached)), [words for _, words in reached], fontsize=8)
    axes[2].set(xlabel="variance of where mutations end", title="after 60 generations", xlim=(0, None))
    figure.savefig(path, dpi=130)


def main():
    """Measure, print, and draw."""
    torch.set_num_threads(1)
    noises, reached = measured()
    for (mean, words, name), values in noises.items():
        cells = "; ".join("{:,.0f} ({:,.0f} to {:,.0f})".format(*each) for each in values)
        print(f"{mean}, {name}, {words}: rollouts with actions of {SPREADS}: {cells}")
    for (name, words), values in reached.items():
        print(f"trained by {name}, actions {words}: variance", "{:,.0f} ({:,.0f} to {:,.0f})".format(*values))
    if len(sys.argv) > 1:
        draw(noises, reached, sys.argv[1])


if __name__ == "__main__":
    main()
