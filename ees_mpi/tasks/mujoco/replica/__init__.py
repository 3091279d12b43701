"""The paper's cheetah and ant in MuJoCo, with the numbers that Bullet really uses ("Bullet replica")."""
