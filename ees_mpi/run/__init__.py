"""A run's file: `arrays` lists what it holds, `file` says what that means, `writing` begins and continues one."""
