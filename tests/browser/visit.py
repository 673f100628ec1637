"""A page under test: its console messages, network requests and policy violations are recorded."""

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


# The page receives a change of its address a moment later, and nothing without a change.
GO = """(chosen) => new Promise((changed) => {
  window.addEventListener("hashchange", changed, { once: true });
  setTimeout(changed, 500);
  location.hash = chosen;
})"""


class Visit:
    """One page, from the moment before it is opened. `page` is Playwright's."""

    def __init__(self, page: Any, address: str) -> None:
        self.page, self.address = page, address
        self.messages: list[str] = []
        self.outside_requests: list[str] = []
        self.page.route("**/*", self._let_through)
        self.page.add_init_script(LISTEN)
        self.page.set_default_timeout(30_000)
        self.page.on("console", lambda message: message.type in ("error", "warning") and self._log(message))
        self.page.on("pageerror", lambda error: self.messages.append(f"error: {error}"))
        self.page.on(
            "dialog", lambda dialog: (self.messages.append(f"dialog: {dialog.message}"), dialog.dismiss())
        )
        self.page.on("popup", lambda popup: self.messages.append(f"window: {popup.url}"))
        self.page.on(
            "request", lambda request: self._is_own(request.url) or self.outside_requests.append(request.url)
        )

    def _log(self, message: Any) -> None:
        self.messages.append(f"{message.type}: {message.text}")

    def _is_own(self, url: str) -> bool:
        """True for requests of the page's own data: to its server, or for its file."""
        if url.startswith(("data:", "blob:")):
            return True
        own = self.address.partition("#")[0]
        return url.startswith(own) if own.startswith("http") else url.partition("#")[0] == own

    def _let_through(self, route: Any) -> None:
        if self._is_own(route.request.url):
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
        """Go to a view by its address, and return its body when it is drawn."""
        chosen = "&".join(f"{key}={quote(str(value))}" for key, value in {"view": name, **state}.items())
        self.page.evaluate(GO, chosen)
        theme = state.get("theme")
        if theme:
            self.page.wait_for_selector(f".regard[data-theme={theme}]", state="attached")
        return self.page.wait_for_selector(DRAWN.format(name))

    def settled(self) -> None:
        """Wait for the answer to a request, and its view."""
        self.page.wait_for_selector("main:not([aria-busy]) .ask > .said:empty", state="attached")

    def open_all(self) -> None:
        """Open all that can be opened: tables behind charts, forms."""
        self.page.evaluate(
            "() => document.querySelectorAll('details').forEach((one) => { one.open = true; })"
        )
        self.page.wait_for_timeout(20)  # `toggle` events come later

    def pieces(self) -> list[str]:
        """All text of the page, node by node, except in input fields."""
        return self.page.evaluate(PIECES)

    def texts(self, selector: str) -> list[str]:
        """The text of each element, whether it is in sight or not."""
        return self.page.eval_on_selector_all(selector, "(found) => found.map((one) => one.textContent)")

    def strange(self) -> list[str]:
        """Elements that are not allowed, and attributes that run code or lead away."""
        return self.page.evaluate(STRANGE, ALLOWED.split())

    def assert_quiet(self) -> None:
        """No console message, no outside request, no policy violation, no injected code that ran."""
        assert self.messages == []
        assert self.outside_requests == []
        assert self.page.evaluate("() => window.reports") == []
        assert self.page.evaluate("() => window.ran") is None


def file_address(path: Path) -> str:
    """A file as an address, whatever its name."""
    return re.sub("#", "%23", path.resolve().as_uri())
