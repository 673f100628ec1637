"""The files of the server's page, by name."""

from regard.page.assets import Asset, assets_of


def page_files() -> dict[str, Asset]:
    """All files that a browser may ask for."""
    return assets_of("regard.serving.page")
