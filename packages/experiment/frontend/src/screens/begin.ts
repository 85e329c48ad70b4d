// Instructions, and the pages between the parts.

import { cell, type Choice } from "../choices";
import { button, make } from "../dom";
import type { Page } from "../plugins/screen";
import { fieldSize, grayBytes, pinkFields } from "../noise";
import { counted, listed, text } from "../texts";
import { codeBox, note, page, sheet } from "./layout";
import type { SessionState, StudyInfo } from "../wire";

/** Buttons that start in full screen, if available, and in the window. */
function starters(what: "start" | "continue"): HTMLElement[] {
  if (!document.fullscreenEnabled || document.fullscreenElement) {
    return [button(what, text(`${what}.plain`))];
  }
  const full = button("start-full", text(`${what}.full`));
  // Here and not later: a browser allows it only in response to a click.
  full.addEventListener("click", () => {
    document.documentElement.requestFullscreen().catch(() => undefined);
  });
  return [full, button(what, text(`${what}.window`), "secondary")];
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
    [make("span", { class: "square" }), text("instructions.step.fixation")],
    [make("span", { class: "scene" }), text("instructions.step.image")],
    [noisePatch(), text("instructions.step.mask")],
    [grid, text("instructions.step.response")],
  ];
  const items = panels.map(([panel, words]) =>
    make("li", {}, make("span", { class: "panel", "aria-hidden": "true" }, panel), words),
  );
  return make("ol", { class: "steps" }, ...items);
}

function responseTime(study: StudyInfo): string {
  const ms = study.timing.response_ms;
  if (ms === 0) return text("instructions.no-limit");
  return text("instructions.limit", { seconds: ms / 1000 });
}

function parts(study: StudyInfo): string {
  const { practice, qualification, trials } = study.counts;
  const counts = [];
  if (practice > 0) counts.push(counted("instructions.practice", practice));
  if (qualification > 0) counts.push(counted("instructions.qualification", qualification));
  counts.push(counted("instructions.main", trials));
  return text("instructions.parts", { parts: listed(counts) });
}

export function instructions(
  study: StudyInfo,
  choices: readonly Choice[],
  state: SessionState,
): Page {
  const build = study.kind === "categorise" ? flashSheet : compareSheet;
  return page("instructions", () => build(study, choices, state));
}

/** The participant's code, for those who leave early and want their responses deleted. */
function codeOf(state: SessionState): HTMLElement {
  return make(
    "div",
    { class: "keep" },
    codeBox(text("code.participant"), state.participant, "participant"),
    make("p", { class: "small" }, text("code.keep")),
  );
}

function flashSheet(
  study: StudyInfo,
  choices: readonly Choice[],
  state: SessionState,
): HTMLElement {
  const grid = make("div", { class: "grid small" }, ...choices.map((choice) => cell(choice)));
  const preview = make(
    "div",
    { class: "sample", "aria-label": text("instructions.grid"), role: "img" },
    grid,
  );
  return sheet(
    text("instructions.heading"),
    [
      steps(choices),
      make(
        "div",
        { class: "columns" },
        make(
          "div",
          { class: "prose" },
          note(text("instructions.choose")),
          note(responseTime(study)),
          note(text("instructions.hard")),
          note(parts(study)),
        ),
        preview,
      ),
      codeOf(state),
    ],
    starters("start"),
  );
}

function compareSheet(
  study: StudyInfo,
  choices: readonly Choice[],
  state: SessionState,
): HTMLElement {
  const keys = choices.map((choice) =>
    make("li", {}, make("kbd", {}, choice.printed), ` ${choice.label}`),
  );
  const shown =
    study.timing.show_ms > 0
      ? text("instructions.pairs.shown", { seconds: study.timing.show_ms / 1000 })
      : text("instructions.pairs.stay");
  return sheet(
    text("instructions.heading"),
    [
      examples(),
      note(text("instructions.pairs")),
      note(text("instructions.pairs.question")),
      make("ul", { class: "keys" }, ...keys),
      note(`${text("instructions.pairs.respond")} ${shown}`),
      note(parts(study)),
      codeOf(state),
    ],
    starters("start"),
  );
}

function examples(): HTMLElement {
  const pair = (first: string, second: string, words: string): HTMLElement =>
    make(
      "li",
      {},
      make(
        "span",
        { class: "panel", "aria-hidden": "true" },
        make("span", { class: `scene ${first}` }),
        make("span", { class: `scene sea ${second}` }),
      ),
      words,
    );
  return make(
    "ul",
    { class: "steps pairs" },
    pair("blurred", "blurred", text("instructions.pair.same")),
    pair("blurred", "faded", text("instructions.pair.different")),
  );
}

/** After a reload, another tab, or a lost connection: time to get ready. */
export function goOn(state: SessionState | null, why = text("continue.heading")): Page {
  return page("continue", () => {
    const done = state ? state.responded[partOf(state)] : 0;
    const planned = state ? state.planned[partOf(state)] : 0;
    const where = state && done > 0 ? text("continue.done", { done, planned }) : null;
    return sheet(
      why,
      [
        where ? note(where) : null,
        note(text("continue.text")),
      ],
      starters("continue"),
    );
  });
}

function partOf(state: SessionState): "practice" | "qualification" | "main" {
  return state.phase === "finish" || state.phase === "done" ? "main" : state.phase;
}

export function beforeTest(study: StudyInfo): Page {
  const count = study.counts.qualification;
  const stem = study.kind === "categorise" ? "test.image" : "test.pair";
  return page("qualification", () =>
    sheet(
      text("test.heading"),
      [note(`${counted(stem, count)} ${text("test.text")}`)],
      [button("continue", text("test.start"))],
    ),
  );
}

export function beforeMain(study: StudyInfo): Page {
  const count = study.counts.trials;
  const breaks = Math.ceil(count / study.block) - 1;
  const stem = study.kind === "categorise" ? "main.image" : "main.pair";
  const rest = breaks > 0 ? counted("main.breaks", breaks) : "";
  return page("main", () =>
    sheet(
      text("main.heading"),
      [note(`${counted(stem, count)} ${rest}`.trim()), note(text("main.hard"))],
      [button("continue", text("main.start"))],
    ),
  );
}

export function rest(state: SessionState): Page {
  const { main: done } = state.responded;
  const { main: planned } = state.planned;
  return page("break", () => {
    const bar = make("progress", { max: `${planned}`, value: `${done}`, "aria-label": text("break.bar") });
    const share = state.accuracy;
    return sheet(
      text("break.heading"),
      [
        bar,
        note(text("break.done", { done, planned })),
        share === null
          ? null
          : make(
              "p",
              { class: "share" },
              make("strong", {}, `${Math.round(100 * share)} %`),
              ` ${text("break.share")}`,
            ),
        note(text("break.rest")),
        codeOf(state),
      ],
      [button("continue", text("continue.plain"))],
    );
  });
}
