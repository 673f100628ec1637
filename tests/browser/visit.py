"""A page that is watched: what it says, what it asks of the network, what it would rather not have done."""

import re
from pathlib import Path
from typing import Any
from urllib.parse import quote

DRAWN = "main:not([aria-busy]) > .body.of-{}"
LISTEN = """
window.reports = [];
addEventListener("securitypolicyviolation", (event) => window.reports.push(`${event.violatedDirective}: ${event.blockedURI}`));
"""  # noqa: E501
VIEWS = """() => [...document.querySelectorAll("nav.views li > *")].map((item) =>
    new URLSearchParams(item.getAttribute("href").slice(1)).get("view"))"""
STRANGE = """(allowed) => [...document.querySelectorAll("*")].filter((node) =>
    !allowed.includes(node.localName) || [...node.attributes].some(({ name, value }) => name.startsWith("on")
    || (["href", "src", "action", "formaction"].includes(name) && !/^(#|data:,$|regard\\.(css|js)$|views\\.css$)/.test(value))
    )).map((node) => node.outerHTML.slice(0, 200))"""  # noqa: E501
PIECES = """() => {
    const walker = document.createTreeWalker(document.getElementById("regard"), NodeFilter.SHOW_TEXT);
    const found = [];
    while (walker.nextNode()) if (walker.currentNode.parentNode.localName !== "textarea") found.push(walker.currentNode.data);
    return found;
}"""  # noqa: E501
ALLOWED = (  # the elements that the page may be made of
    "html head meta title link style script noscript body div header nav main footer section aside h1 h2 h3 "
    "h4 p a button span bdi ul ol li dl dt dd strong em small code label select option input output textarea "
    "form details summary figure figcaption table thead tbody tr th td blockquote canvas svg g path rect "
    "line circle text tspan title"
)


# The page hears of another address a moment later; without a change it hears nothing.
GO = """(chosen) => new Promise((heard) => {
  window.addEventListener("hashchange", heard, { once: true });
  setTimeout(heard, 500);
  location.hash = chosen;
})"""


class Visit:
    """One page, from the moment before it is opened. `page` is Playwright's."""

    def __init__(self, context: Any, address: str) -> None:
        self.address = address
        self.said: list[str] = []
        self.strangers: list[str] = []
        context.route("**/*", self._let_through)
        context.add_init_script(LISTEN)
        self.page = context.new_page()
        self.page.set_default_timeout(30_000)
        self.page.on("console", lambda told: told.type in ("error", "warning") and self._say(told))
        self.page.on("pageerror", lambda error: self.said.append(f"error: {error}"))
        self.page.on(
            "dialog", lambda dialog: (self.said.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        self.page.on("popup", lambda popup: self.said.append(f"window: {popup.url}"))
        self.page.on("request", lambda request: self._own(request.url) or self.strangers.append(request.url))

    def _say(self, told: Any) -> None:
        self.said.append(f"{told.type}: {told.text}")

    def _own(self, url: str) -> bool:
        """Whether a request is one for the page's own data: to its server, or for the file that it is."""
        if url.startswith(("data:", "blob:")):
            return True
        own = self.address.partition("#")[0]
        return url.startswith(own) if own.startswith("http") else url.partition("#")[0] == own

    def _let_through(self, route: Any) -> None:
        if self._own(route.request.url):
            route.continue_()
        else:
            route.abort()

    def open(self, fragment: str = "") -> "Visit":
        self.page.goto(self.address + fragment)
        self.page.wait_for_selector("main:not([aria-busy]) > .body")
        return self

    def views(self) -> list[str]:
        """The names of the views that the page offers."""
        return self.page.evaluate(VIEWS)

    def view(self, name: str, **state: object) -> Any:
        """Goes to a view by its address; gives its body when it is drawn."""
        chosen = "&".join(f"{key}={quote(str(value))}" for key, value in {"view": name, **state}.items())
        self.page.evaluate(GO, chosen)
        theme = state.get("theme")
        if theme:
            self.page.wait_for_selector(f".regard[data-theme={theme}]", state="attached")
        return self.page.wait_for_selector(DRAWN.format(name))

    def settled(self) -> None:
        """Waits for the answer to what was asked, and its view."""
        self.page.wait_for_selector("main:not([aria-busy]) .ask > .said:empty", state="attached")

    def open_all(self) -> None:
        """Opens whatever can be opened: tables behind charts, forms."""
        self.page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
        )
        self.page.wait_for_timeout(20)  # `toggle` is told later

    def pieces(self) -> list[str]:
        """All text of the page, node by node, but what stands in boxes to be changed."""
        return self.page.evaluate(PIECES)

    def texts(self, selector: str) -> list[str]:
        """The text of each element, whether it is in sight or not."""
        return self.page.eval_on_selector_all(selector, "(found) => found.map((one) => one.textContent)")

    def strange(self) -> list[str]:
        """Elements that the page is not made of, and attributes that run or lead away."""
        return self.page.evaluate(STRANGE, ALLOWED.split())

    def assert_quiet(self) -> None:
        """Nothing was said on the console, asked of a stranger, refused by the policy or run."""
        assert self.said == []
        assert self.strangers == []
        assert self.page.evaluate("() => window.reports") == []
        assert self.page.evaluate("() => window.ran") is None


def file_address(path: Path) -> str:
    """A file as an address, whatever its name."""
    return re.sub("#", "%23", path.resolve().as_uri())
