// The response buttons: a grid of categories, or two buttons. The last one pressed counts.

import { make } from "./dom";
import { icon } from "./icons";
import { placeOf } from "./keys";

export interface Choice {
  /** Its name in the data, and what participants read. */
  name: string;
  label: string;
  /** KeyboardEvent.code of its key, and what is printed on it. */
  code: string;
  printed: string;
}

/** A cell that looks like the button of a category; for previews of the grid, and feedback. */
export function cell(choice: Choice, tag: "button" | "span" = "span"): HTMLElement {
  const key = make("kbd", {}, choice.printed);
  const name = make("span", { class: "name" }, choice.label);
  const inside = [icon(choice.name), name, key];
  if (tag === "span") return make("span", { class: "choice" }, ...inside);
  const attributes = {
    type: "button",
    class: "choice",
    "data-choice": choice.name,
    "aria-keyshortcuts": choice.printed,
    "aria-pressed": "false",
  };
  return make("button", attributes, ...inside);
}

type Pick = (choice: string, timestamp: number) => void;

/** Buttons that respond to pointer and keys while they are listening. */
export class Choices {
  private pick: Pick | null = null;
  private pressed: HTMLElement | null = null;
  private readonly buttons: HTMLElement[];

  constructor(
    readonly root: HTMLElement,
    private readonly choices: readonly Choice[],
    build: (choice: Choice) => HTMLElement,
  ) {
    this.buttons = choices.map(build);
    root.append(...this.buttons);
    // Use pointerdown, not click: key presses are timed at the press too.
    root.addEventListener("pointerdown", (event) => {
      if (event.isPrimary && event.button === 0) this.choose(this.placeIn(event), event.timeStamp);
    });
    // A click without a pointer: Enter or space on a focused button, or a screen reader.
    root.addEventListener("click", (event) => {
      if (event.detail === 0) this.choose(this.placeIn(event), event.timeStamp);
    });
  }

  listen(pick: Pick): void {
    this.pick = pick;
    document.addEventListener("keydown", this.onKey);
  }

  stop(): void {
    this.pick = null;
    document.removeEventListener("keydown", this.onKey);
    this.mark(null);
  }

  private readonly onKey = (event: KeyboardEvent): void => {
    const place = placeOf(
      event,
      this.choices.map((choice) => choice.code),
    );
    if (place < 0) return;
    event.preventDefault();
    this.choose(place, event.timeStamp);
  };

  private placeIn(event: Event): number {
    return this.buttons.findIndex((button) => button.contains(event.target as Node));
  }

  private choose(place: number, timestamp: number): void {
    const choice = this.choices[place];
    if (!choice || !this.pick) return;
    this.mark(this.buttons[place] ?? null);
    this.pick(choice.name, timestamp);
  }

  private mark(button: HTMLElement | null): void {
    this.pressed?.setAttribute("aria-pressed", "false");
    button?.setAttribute("aria-pressed", "true");
    this.pressed = button;
  }
}
