"""A run's file: `arrays` lists what it holds, `file` says what that means, `start` begins and continues one."""
