// Instructions, and the pages between the parts.

import { cell, type Choice } from "../choices";
import { button, make } from "../dom";
import type { Page } from "../plugins/screen";
import { fieldSize, grayBytes, pinkFields } from "../noise";
import { note, page, sheet } from "./layout";
import type { SessionState, StudyInfo } from "../wire";

/** Buttons that start in full screen, if available, and in the window. */
function starters(text: string): HTMLElement[] {
  if (!document.fullscreenEnabled || document.fullscreenElement) return [button("start", text)];
  const full = button("start-full", `${text} in full screen`);
  // Here and not later: a browser allows it only in response to a click.
  full.addEventListener("click", () => {
    document.documentElement.requestFullscreen().catch(() => undefined);
  });
  return [full, button("start", `${text} in this window`, "secondary")];
}

function noisePatch(): HTMLCanvasElement {
  const side = 96;
  const size = fieldSize(side);
  const [field] = pinkFields(size, Math.random);
  const canvas = make("canvas", { width: `${side}`, height: `${side}` });
  canvas
    .getContext("2d")
    ?.putImageData(new ImageData(grayBytes(field, size, side), side, side), 0, 0);
  return canvas;
}

function steps(choices: readonly Choice[]): HTMLElement {
  const grid = make("span", { class: "tiny" }, ...choices.map(() => make("i")));
  const panels: [Node, string][] = [
    [make("span", { class: "square" }), "A square: look at it"],
    [make("span", { class: "scene" }), "An image, very briefly"],
    [noisePatch(), "Noise: ignore it"],
    [grid, "Choose what it was"],
  ];
  const items = panels.map(([panel, text]) =>
    make("li", {}, make("span", { class: "panel", "aria-hidden": "true" }, panel), text),
  );
  return make("ol", { class: "steps" }, ...items);
}

function responseTime(study: StudyInfo): string {
  const ms = study.timing.response_ms;
  if (ms === 0) return "Take the time you need, but do not think for long.";
  return `You have ${(ms / 1000).toLocaleString("en", { maximumFractionDigits: 1 })} seconds; if you press more than one, the last one counts.`;
}

function parts(study: StudyInfo): string {
  const { practice, qualification, trials } = study.counts;
  const counts = [];
  if (practice > 0) counts.push(`${practice} for practice, with the correct response shown each time`);
  if (qualification > 0) counts.push(`${qualification} as a short test`);
  counts.push(`${trials} in the main part`);
  const last = counts.pop();
  return counts.length > 0 ? `There are ${counts.join(", ")}, and ${last}.` : `There are ${last}.`;
}

export function instructions(study: StudyInfo, choices: readonly Choice[]): Page {
  return page("instructions", () =>
    study.kind === "categorise" ? flashSheet(study, choices) : compareSheet(study, choices),
  );
}

function flashSheet(study: StudyInfo, choices: readonly Choice[]): HTMLElement {
  const grid = make("div", { class: "grid small" }, ...choices.map((choice) => cell(choice)));
  const preview = make(
    "div",
    { class: "sample", "aria-label": "The grid of responses and its keys", role: "img" },
    grid,
  );
  return sheet(
    "How it works",
    [
      steps(choices),
      make(
        "div",
        { class: "columns" },
        make(
          "div",
          { class: "prose" },
          note(
            "Every image shows one of these sixteen things. Choose it with a click, or with the key printed beside it: the keys are arranged on the keyboard like the grid on the screen.",
          ),
          note(responseTime(study)),
          note(
            "Many images are hard to see, and some are very hard. This is intended: if you are not sure, guess.",
          ),
          note(parts(study)),
        ),
        preview,
      ),
    ],
    starters("Start"),
  );
}

function compareSheet(study: StudyInfo, choices: readonly Choice[]): HTMLElement {
  const keys = choices.map((choice) =>
    make("li", {}, make("kbd", {}, choice.printed), ` ${choice.name}`),
  );
  const shown =
    study.timing.show_ms > 0
      ? `The images are shown for ${study.timing.show_ms / 1000} seconds.`
      : "The images stay until you have responded; there is no hurry.";
  return sheet(
    "How it works",
    [
      examples(),
      note(
        "You see two different images side by side. Each has been changed by a computer: blurred, made noisy, recolored, and so on.",
      ),
      note(
        "Say whether both were changed in the same way. It does not matter what they show, nor whether one was changed a little more than the other.",
      ),
      make("ul", { class: "keys" }, ...keys),
      note(`Click a button or press its key. ${shown} If you are not sure, guess.`),
      note(parts(study)),
    ],
    starters("Start"),
  );
}

function examples(): HTMLElement {
  const pair = (first: string, second: string, text: string): HTMLElement =>
    make(
      "li",
      {},
      make(
        "span",
        { class: "panel", "aria-hidden": "true" },
        make("span", { class: `scene ${first}` }),
        make("span", { class: `scene sea ${second}` }),
      ),
      text,
    );
  return make(
    "ul",
    { class: "steps pairs" },
    pair("blurred", "blurred", "Same: both are blurred"),
    pair("blurred", "faded", "Different: one is blurred, the other faded"),
  );
}

/** After a reload, another tab, or a lost connection: time to get ready. */
export function goOn(state: SessionState | null, why = "Welcome back"): Page {
  return page("continue", () => {
    const done = state ? state.responded[partOf(state)] : 0;
    const planned = state ? state.planned[partOf(state)] : 0;
    const where = state && done > 0 ? `You have done ${done} of ${planned} in this part.` : null;
    return sheet(
      why,
      [
        where ? note(where) : null,
        note(
          "None of your responses are lost. Look at the middle of the screen, and continue when you are ready.",
        ),
      ],
      starters("Continue").map((each) => {
        if (each.dataset["action"] === "start") each.dataset["action"] = "continue";
        return each;
      }),
    );
  });
}

function partOf(state: SessionState): "practice" | "qualification" | "main" {
  return state.phase === "finish" || state.phase === "done" ? "main" : state.phase;
}

export function beforeTest(study: StudyInfo): Page {
  const count = study.counts.qualification;
  const one = study.kind === "categorise" ? "image" : "pair";
  return page("qualification", () =>
    sheet(
      "Practice is over",
      [
        note(
          `Now comes a short test with ${count} easy ${one}${count === 1 ? "" : "s"}. It shows that the task is clear; the correct responses are no longer shown.`,
        ),
      ],
      [button("continue", "Start the test")],
    ),
  );
}

export function beforeMain(study: StudyInfo): Page {
  const count = study.counts.trials;
  const breaks = Math.ceil(count / study.block) - 1;
  const rest =
    breaks > 0 ? `There ${breaks === 1 ? "is a break" : `are ${breaks} breaks`} in between.` : "";
  return page("main", () =>
    sheet(
      "Now the main part",
      [
        note(`${count} more. The correct responses are no longer shown. ${rest}`.trim()),
        note("Some are very hard. If you are not sure, guess."),
      ],
      [button("continue", "Start the main part")],
    ),
  );
}

export function rest(state: SessionState): Page {
  const { main: done } = state.responded;
  const { main: planned } = state.planned;
  return page("break", () => {
    const bar = make("progress", { max: `${planned}`, value: `${done}`, "aria-label": "Done" });
    const share = state.accuracy;
    return sheet(
      "Time for a break",
      [
        bar,
        note(`You have done ${done} of ${planned}.`),
        share === null
          ? null
          : make(
              "p",
              { class: "share" },
              make("strong", {}, `${Math.round(100 * share)} %`),
              " of your responses so far are correct.",
            ),
        note("Rest your eyes for a moment, and continue when you are ready."),
      ],
      [button("continue", "Continue")],
    );
  });
}
