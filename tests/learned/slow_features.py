"""Reference of the features of the measure "learned", one item at a time in plain Python."""

import math
from statistics import mean, median

import numpy as np

DAY = 86_400.0


class SlowFeatures:
    """Features from profiles of (item, time) in order, without the left-out users."""

    def __init__(self, profiles, n_items, ties, strength):
        self.profiles = profiles
        self.n_items = n_items
        self.ties = ties
        self.support = [sum(self.has(p, i) for p in profiles) for i in range(n_items)]
        consumed = np.array([[float(self.has(p, i)) for i in range(n_items)] for p in profiles])
        consumed = consumed.reshape(len(profiles), n_items)
        self.inverse = np.linalg.inv(consumed.T @ consumed + strength * np.eye(n_items))

    def has(self, profile, item):
        return any(item == other for other, _ in profile)

    def after(self, profile, item):
        """Return the items that follow an item in one profile, in order."""
        for place, (other, time) in enumerate(profile):
            if other == item:
                rest = profile[place + 1 :]
                return [i for i, t in rest if self.ties == "order" or t != time]
        return []

    def count(self, i, h):
        return sum(h in self.after(p, i) for p in self.profiles)

    def count_within(self, i, h, window):
        return sum(h in self.after(p, i)[:window] for p in self.profiles)

    def place(self, item):
        places = [
            k / max(len(p) - 1, 1) for p in self.profiles for k, (i, _) in enumerate(p) if i == item
        ]
        return mean(places) if places else 0.5

    def days(self, item):
        rows = [(i, t) for p in self.profiles for i, t in p]
        seconds = [t // 1_000_000 for i, t in rows if i == item]
        return mean(seconds or [0]) / DAY

    def ridge(self, history, weights, item):
        total = sum(w * self.inverse[i, item] for i, w in zip(history, weights, strict=True))
        return -total / self.inverse[item, item]

    def of(self, history, h):
        """Return all features of item h by name."""
        n_users, m = max(len(self.profiles), 1), len(history)
        forward = [self.count(i, h) for i in history]
        back = [self.count(h, i) for i in history]
        support = [self.support[i] for i in history]
        some = [max(s, 1) for s in support]
        share = [f / s for f, s in zip(forward, some, strict=True)]
        ratio = [
            f / max(s - b, 1) if s else 0.0 for f, b, s in zip(forward, back, support, strict=True)
        ]
        length = math.sqrt(max(self.support[h], 1))
        cosine = [
            (f + b) / math.sqrt(s) / length for f, b, s in zip(forward, back, some, strict=True)
        ]
        recent, late, last = (
            [0.5 ** ((m - 1 - k) / half) for k in range(m)] for half in (10, 40, 3)
        )

        def weighted(values):
            return float(np.average(values, weights=recent))

        def soon(window):
            return mean(
                self.count_within(i, h, window) / s
                for i, s in zip(history[-5:], some[-5:], strict=True)
            )

        def shrunk(window):
            """Return the shares of the last items, the latest last."""
            last = zip(history[-5:], some[-5:], strict=True)
            return [self.count_within(i, h, window) / (s + 3) for i, s in last]

        return {
            "count": mean(forward) / n_users,
            "share": mean(share),
            "recent_share": weighted(share),
            "last_share": mean(share[-5:]),
            "next": soon(10),
            "soon": soon(50),
            "max_share": max(share),
            "median_ratio": median(math.floor(r * 65536) / 65536 for r in ratio),
            "ratio": mean(ratio),
            "max_ratio": max(ratio),
            "back_share": mean(b / s for b, s in zip(back, some, strict=True)),
            "order": (sum(forward) + 1) / (sum(forward) + sum(back) + 2),
            "cosine": mean(cosine),
            "recent_cosine": weighted(cosine),
            "max_cosine": max(cosine),
            "lift": mean(share) * n_users / (self.support[h] + 1),
            "support": math.log((self.support[h] + 1) / (n_users + 1)),
            "place": self.place(h),
            "place_ahead": self.place(h) - mean(self.place(i) for i in history),
            "days_ahead": self.days(h) - mean(self.days(i) for i in history),
            "length": m,
            "profile_support": mean(math.log((s + 1) / (n_users + 1)) for s in support),
            "ridge": self.ridge(history, [1.0] * m, h),
            "late_ridge": self.ridge(history, late, h),
            "recent_ridge": self.ridge(history, recent, h),
            "last_ridge": self.ridge(history, last, h),
            "follows": shrunk(1)[-1],
            "follows_soon": shrunk(3)[-1],
            "follows_later": shrunk(10)[-1],
            "max_follows": max(shrunk(1)),
            "max_follows_soon": max(shrunk(3)),
            "max_follows_later": max(shrunk(10)),
            "mean_follows": mean(shrunk(1)),
            "mean_follows_soon": mean(shrunk(3)),
        }
