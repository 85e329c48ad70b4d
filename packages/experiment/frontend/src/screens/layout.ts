// The layout of every page except trials: a sheet with a heading, text and actions.

import { make } from "../dom";
import type { Page } from "../plugins/screen";
import { text } from "../texts";

type Part = Node | string | null;

/** Return a sheet. The heading takes the focus when the page opens. */
export function sheet(heading: string, parts: Part[], actions: HTMLElement[] = []): HTMLElement {
  const title = make("h1", { tabindex: "-1" }, heading);
  const foot = actions.length > 0 ? make("div", { class: "actions" }, ...actions) : null;
  return make("article", { class: "sheet" }, title, ...parts, foot);
}

export function note(words: string): HTMLElement {
  return make("p", {}, words);
}

/** A page in which each button ends it with that button's action. */
export function page(screen: string, build: () => HTMLElement): Page {
  return {
    screen,
    build(done) {
      const root = build();
      for (const each of root.querySelectorAll<HTMLElement>("[data-action]")) {
        each.addEventListener("click", () => done(each.dataset["action"] ?? ""));
      }
      return root;
    },
  };
}

/** A final page. */
export function lastPage(screen: string, build: () => HTMLElement): Page {
  return { screen, build: () => build() };
}

/** A code to copy; `what` names it for robots and tests. */
export function codeBox(name: string, code: string, what: string): HTMLElement {
  const value = make("output", { class: "code", "data-code": what, tabindex: "0" }, code);
  const copy = make("button", { type: "button", class: "button secondary" }, text("code.copy"));
  copy.addEventListener("click", () => {
    getSelection()?.selectAllChildren(value);
    const copied = navigator.clipboard?.writeText(code) ?? Promise.reject(new Error());
    copied.then(
      () => (copy.textContent = text("code.copied")),
      () => (copy.textContent = text("code.by-hand")),
    );
  });
  return make("div", { class: "codebox" }, make("span", {}, name), value, copy);
}
