"""HAMCMC in NumPy float64 alone, with dense matrices and every point of the past at hand.

H by the two-loop recursion as Nocedal & Wright (2006, Algorithm 7.4) have it; S by the product form
of Brodlie, Gourlay & Greenstadt (1973), with B the inverse of the dense H.
"""

import numpy as np


def two_loop(pairs, gamma, vector):
    """Return H v: α from the newest pair to the oldest, then β from the oldest to the newest."""
    q, alphas = np.array(vector, np.float64), []
    for s, y in reversed(pairs):
        alpha = s @ q / (y @ s)
        alphas.append(alpha)
        q = q - alpha * y
    r = gamma * q
    for (s, y), alpha in zip(pairs, reversed(alphas), strict=True):
        beta = y @ r / (y @ s)
        r = r + s * (alpha - beta)
    return r


def inverse_hessian(pairs, gamma, size):
    """Return H, column by column."""
    return np.stack([two_loop(pairs, gamma, unit) for unit in np.eye(size)], axis=1)


def factor(pairs, gamma, size):
    """Return S of S Sᵀ = H: S ← (I − p qᵀ) S, p = s/(sᵀy), q = y + c B s, c² = sᵀy/(sᵀB s)."""
    root = np.sqrt(gamma) * np.eye(size)
    for s, y in pairs:
        curved = np.linalg.solve(root @ root.T, s)
        q = y + np.sqrt(s @ y / (s @ curved)) * curved
        root = (np.eye(size) - np.outer(s / (s @ y), q)) @ root
    return root


class Chain:
    """θ_t = θ_{t−M} − h H g + √(2hT) S ξ, every point and every pair kept under its number.

    Points before the start are the start, and pairs exist from number M on.
    """

    def __init__(self, start, memory_size, trust_region, gamma, threshold, temperature=1.0):
        self.M = memory_size
        self.lam = trust_region
        self.gamma = gamma
        self.threshold = threshold
        self.T = temperature
        self.points = {i: np.array(start, np.float64) for i in range(1 - memory_size, 1)}
        self.pairs = {}
        self.t = 0

    @property
    def point(self):
        """θ_{t+1−M}, which moves next."""
        return self.points[self.t + 1 - self.M]

    def factor(self):
        """S of the next step: from pairs t+2−M … t, those that exist and are curved enough."""
        used = []
        for i in range(self.t + 2 - self.M, self.t + 1):
            s, y = self.pairs.get(i, (np.zeros(1), np.zeros(1)))
            if s @ y > self.threshold * np.linalg.norm(s) * np.linalg.norm(y):
                used.append((s, y))
        return factor(used, self.gamma, len(self.point))

    def move(self, h, gradient, noise):
        """Make a step; `gradient(θ)` is that on the step's batch, wherever it is asked for."""
        start, root = self.point, self.factor()
        g = gradient(start)
        end = start - h * root @ root.T @ g + np.sqrt(2 * h * self.T) * root @ noise
        self.t += 1
        self.points[self.t] = end
        s = end - start
        if self.t >= self.M:
            self.pairs[self.t] = (s, gradient(end) - g + self.lam * s)
        return end

    def restart(self, point):
        """Let the next step begin elsewhere, with no pairs from before."""
        if not np.array_equal(point, self.point):
            self.pairs = {}
        self.points[self.t + 1 - self.M] = point
