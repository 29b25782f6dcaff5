"""A parser of report pages."""

from html.parser import HTMLParser

VOID = {"meta", "img", "br"}


class Page(HTMLParser):
    """The links, ids and tables of a page; fails on tags that do not match."""

    def __init__(self, text):
        super().__init__()
        self.open, self.links, self.ids, self.tables, self.bold = [], [], set(), [], False
        self.feed(text)
        self.close()
        assert not self.open

    def handle_starttag(self, tag, attrs):
        attributes = dict(attrs)
        self.links += [attributes[key] for key in ("src", "href") if key in attributes]
        self.ids.add(attributes.get("id"))
        if tag not in VOID:
            self.open.append(tag)
        if tag == "table":
            self.tables.append([])
        if tag == "tr":
            self.tables[-1].append([])
        if tag in ("td", "th"):
            self.tables[-1][-1].append("")

    def handle_endtag(self, tag):
        assert self.open.pop() == tag

    def handle_data(self, data):
        if "td" in self.open or "th" in self.open:
            self.tables[-1][-1][-1] += f"**{data}**" if "b" in self.open else data

    def table(self, *header):
        return next(table for table in self.tables if tuple(table[0]) == header)
