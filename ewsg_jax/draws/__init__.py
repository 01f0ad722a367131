"""What draws say, whoever made them: convergence, coordinates, predictions, likelihoods."""
