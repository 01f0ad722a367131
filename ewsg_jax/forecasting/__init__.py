"""What a kernel will do, from its own functions and a mode, before it runs."""

from ewsg_jax.forecasting._forecast import forecast as forecast
from ewsg_jax.forecasting.result import Forecast as Forecast
