"""From a model to an answer with a stated error: mode, forecast, check, halve, plan."""
