"""Zip archives of given files."""

import zipfile
from io import BytesIO


def zip_of(path, files):
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, content in files.items():
            archive.writestr(name, content)
    return path


def zipped(files):
    return zip_of(BytesIO(), files).getvalue()
