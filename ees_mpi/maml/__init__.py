"""MAML with TRPO: the gradient-based method of the paper's comparison, with the same ranks and the same run file.

Finn, Abbeel and Levine 2017 (arXiv:1703.03400); Gajewski et al. 2019, section 5.2.1 and supplement S1.2.

A generation is one outer iteration. Its individuals are tasks: to walk in a direction, or in the opposite one. theta is
the weights and the log standard deviations of a Gaussian policy. A is the advantages of a batch of rollouts.

    adapt      theta_i' = theta + lr grad_theta J_i(theta),    J_i = mean log pi_theta(a|s) A     (rollouts of theta)
    maximise   L(theta) = mean_i mean exp(log pi_theta_i'(a|s) - log pi_old(a|s)) A              (rollouts of theta_i')
    within     mean_i mean KL(pi_old || pi_theta_i') <= kl_bound                                 (the TRPO step)

`rollouts` has rollouts and advantages, `learning` all derivatives, `outer` the TRPO step, `method` ask and tell,
`evaluators` the rollouts of an iteration; CPU ranks take one task after the other, and the drivers of GPUs many tasks
side by side. The settings of MAML are in `config.maml`, which imports no torch.
"""

from ees_mpi.errors import optional

torch = optional("torch", "method = \"maml\" needs torch: pip install 'ees_mpi[torch]'")
torch.set_num_threads(1)  # a sum over several threads has other bits
