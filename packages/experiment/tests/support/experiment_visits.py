"""Visits to the pages of a study: every page is looked at once, and keys are enough to go on."""

from collections.abc import Callable, Collection
from time import monotonic
from typing import Any

from browser import AXE, SCREENSHOTS, violations
from eyechart_experiment.languages import read_texts
from eyechart_experiment.simulate.simulation import LOOK

LAPTOP, NETBOOK = {"width": 1440, "height": 900}, {"width": 1024, "height": 600}
# what 200 % leaves of a window of 1440 × 900
ENLARGED = {"viewport": {"width": 720, "height": 450}, "device_scale_factor": 2}
WINDOWS: dict[str, dict[str, Any]] = {
    "1440": {"viewport": LAPTOP}, "1024": {"viewport": NETBOOK}, "enlarged": ENLARGED,
}  # fmt: skip
# enlarged text may need scrolling, in one direction only
SCROLLED_WHEN_ENLARGED = ("consent", "preview", "instructions", "debrief", "failed", "break")
OUTER_WIDTH = "Object.defineProperty(window, 'outerWidth', { value: 1440 })"
# feedback goes away by itself, and sooner than it has been looked at
SLOW_FEEDBACK = """
const wait = window.setTimeout;
window.setTimeout = (work, ms, ...more) =>
  wait(work, [900, 2200].includes(ms) ? 5000 : ms, ...more);
"""
BEYOND = """() => {
  const root = document.documentElement;
  const beyond = [...document.querySelectorAll('#app *')].filter(each => {
    const box = each.getBoundingClientRect();
    const shown = each.offsetParent && getComputedStyle(each).visibility !== 'hidden';
    return shown && (box.right > innerWidth + 1 || box.left < -1
      || (each.clientWidth && each.scrollWidth > each.clientWidth + 1));
  });
  return {
    wide: root.scrollWidth - innerWidth, high: root.scrollHeight - innerHeight,
    beyond: beyond.map(each => `${each.tagName}.${each.className}`),
  };
}"""
MADE = {
    "survey": "eyesight", "institution": "Institute of Vision", "approval": "2026-117",
    "contact": "lab@example.org", "payment": "2.00 EUR", "side": 224,
}  # fmt: skip


def study_texts(language: str, kind: str = "categorise") -> dict[str, Any]:
    """Return the settings of a study with a language's default texts."""
    texts = read_texts(language)
    consent = texts[f"study.consent.{kind}"].replace("{minutes}", "8")
    consent += f"\n\n{texts['study.consent.eyesight']}"
    title = texts[f"study.title.{kind}"]
    return MADE | {"language": language, "kind": kind, "consent": consent, "title": title}


class Look:
    """Looks at each page when it is first seen: whether it fits its window, and axe-core.

    `page`: a page, or the frame of one. Screenshots are kept under `name`, unless it is empty.
    `scrolls`: pages that may be higher than the window.
    """

    def __init__(self, page: Any, name: str = "", scrolls: Collection[str] = ()) -> None:
        self.page, self.name, self.scrolls = page, name, scrolls
        self.screens: list[str] = []
        self.found: list[Any] = []

    def __call__(self, seen: dict[str, str]) -> bool:
        """Look at a page of a robot's visit; the robot goes on."""
        screen = seen["screen"]
        # an image is seen for too short a time, and a wait may end meanwhile
        if screen not in ("", "waiting") and (screen != "trial" or seen["phase"] == "response"):
            self.look(screen)
        return False

    def look(self, screen: str) -> None:
        if screen in self.screens:
            return
        self.screens.append(screen)
        size = self.page.evaluate(BEYOND)
        is_high = size["high"] > 0 and screen not in self.scrolls
        if size["wide"] > 0 or size["beyond"] or is_high:
            self.found.append((screen, size))
        if self.name:
            SCREENSHOTS.mkdir(parents=True, exist_ok=True)
            path = SCREENSHOTS / f"experiment-{self.name}-{screen}.png"
            # a frame has none of its own
            getattr(self.page, "page", self.page).screenshot(path=path, full_page=True)
        if AXE.exists():
            self.found += [(screen, each) for each in violations(self.page)]


class Walk:
    """A visit by keys alone: Tab and Enter on pages, in trials the key that `key` returns."""

    def __init__(
        self, page: Any, look: Look, key: Callable[[dict[str, str]], str] = lambda seen: "f"
    ) -> None:
        self.page, self.look, self.key = page, look, key

    def until_the_end(self) -> str:
        """Decline, reconsider, and go on to the end; return the last screen's name."""
        began, declined, responded = monotonic(), False, ""
        while True:
            assert monotonic() - began < 150, self.look.screens
            seen = self.page.evaluate(LOOK)
            screen = seen["screen"]
            self.look(seen)
            if screen in ("debrief", "failed"):
                return str(screen)
            if screen == "trial":
                if seen["phase"] == "response" and seen["trial"] != responded:
                    responded = seen["trial"]
                    self.page.keyboard.press(self.key(seen))
            elif screen == "consent" and not declined:
                declined = True
                self.press("decline")
            elif screen == "declined":
                self.press("reconsider")
            elif seen["action"]:
                self.press(seen["action"])
            self.page.wait_for_timeout(20)

    def press(self, action: str) -> None:
        """Reach a button with Tab, as somebody without a pointer does, and press it."""
        for _ in range(12):
            self.page.keyboard.press("Tab")
            focused = self.page.evaluate("document.activeElement?.dataset.action ?? ''")
            if focused == action:
                self.page.keyboard.press("Enter")
                return
            if self.page.locator(f"[data-action='{action}']").count() == 0:
                return
        raise AssertionError(f"{action} cannot be reached by keys")
