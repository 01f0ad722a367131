"""What a kernel is, and how a dynamics and an estimator make one."""
