"""The cheetah and the ant of the paper on raw pybullet, as tasks and as Gymnasium environments."""
