"""Slow reference implementations of profiles and precedence counts."""

from collections import Counter


def profiles(rows):
    """Rows (user, item, time) in file order -> {user: [(item, time), …]} in time order."""
    users = {}
    for user, item, time in sorted(rows, key=lambda row: row[2]):  # sorted() is stable
        profile = users.setdefault(user, [])
        if item not in [known for known, _ in profile]:
            profile.append((item, time))
    return users


def support(users):
    return Counter(item for profile in users.values() for item, _ in profile)


def precedence(users, ties="order"):
    """{(i, h): number of users who consumed i before h}"""
    counts = Counter()
    for profile in users.values():
        for place, (first, before) in enumerate(profile):
            for second, after in profile[place + 1 :]:
                if ties == "order" or before < after:
                    counts[first, second] += 1
    return counts
