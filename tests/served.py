"""Sets for users whose future is known."""


def served_cases(model, cases, *asked_by, **options):
    """Yield the set of each case, and the share of its future items outside the set.

    `asked_by` names what a request holds: "user", "history" or both.
    """
    users, ids = cases.interactions.users, cases.interactions.items.ids
    for case, user in enumerate(cases.users.tolist()):
        request = {"user": users[user], "history": ids.gather(cases.known(case)).to_list()}
        picks = model.recommend(**{name: request[name] for name in asked_by}, **options)
        future = set(ids.gather(cases.future(case)).to_list())
        yield picks, len(future.difference(picks.items)) / len(future)
