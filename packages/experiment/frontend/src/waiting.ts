// What is shown while waiting for the server: nothing at first, then a note that it takes time, or
// that the connection is lost.

import type { World } from "./steps";
import { make } from "./dom";
import { note, sheet } from "./screens/layout";
import { text } from "./texts";

const UNNOTICED = 600;
const GRAY = ["trial", "feedback"];

/** Start showing a wait; returns a function that ends it. */
export function waiting(display: HTMLElement, world: World, root: HTMLElement): () => void {
  const shown = make("div", {});
  // Between two trials, a short wait must not be visible.
  if (!GRAY.includes(root.dataset["screen"] ?? "")) root.dataset["screen"] = "waiting";
  const look = (): void => {
    if (world.connection.lost) world.interrupted = true;
    root.dataset["screen"] = world.connection.lost ? "offline" : "waiting";
    shown.replaceChildren(world.connection.lost ? offline() : patience());
    if (!shown.isConnected) display.append(shown);
  };
  const timer = setTimeout(look, UNNOTICED);
  const quiet = world.connection.listen((lost) => {
    if (lost || shown.isConnected) look();
  });
  return () => {
    clearTimeout(timer);
    quiet();
  };
}

function patience(): HTMLElement {
  return make("p", { class: "patience", role: "status" }, text("waiting.patience"));
}

function offline(): HTMLElement {
  const page = sheet(text("waiting.lost"), [
    note(text("waiting.kept")),
    note(text("waiting.check")),
  ]);
  page.setAttribute("role", "status");
  return page;
}
