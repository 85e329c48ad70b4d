// The last pages: debriefing, the code, and a button back to the platform, labeled `back`.

import { button, make } from "../dom";
import type { Page } from "../plugins/screen";
import { lastPage, note, page, sheet } from "./layout";
import type { Completion, SessionState, StudyInfo } from "../wire";

const ABOUT: Record<StudyInfo["kind"], string[]> = {
  categorise: [
    "A computer had made the images harder to see, with blur, noise, fog, frost and the like, from hardly at all to very strongly.",
    "We measure how well humans still recognize them, and compare that with computer programs that recognize images: where humans see better, the programs have something to learn.",
  ],
  "same-different": [
    "A computer had changed each image in one of several ways, about equally strongly.",
    "Where humans cannot tell two ways of changing an image apart, they can be treated as one when we measure how well humans and computer programs recognize such images.",
  ],
};

function codeBox(name: string, code: string, what: string): HTMLElement {
  const value = make("output", { class: "code", "data-code": what, tabindex: "0" }, code);
  const copy = make("button", { type: "button", class: "button secondary" }, "Copy");
  copy.addEventListener("click", () => {
    getSelection()?.selectAllChildren(value);
    const copied = navigator.clipboard?.writeText(code) ?? Promise.reject(new Error());
    copied.then(
      () => (copy.textContent = "Copied"),
      () => (copy.textContent = "Press Ctrl + C"),
    );
  });
  return make("div", { class: "codebox" }, make("span", {}, name), value, copy);
}

function wayBack(completion: Completion | null, back: string): HTMLElement | null {
  if (!completion) return null;
  if (completion.way === "form") {
    const fields = Object.entries(completion.fields).map(([name, value]) =>
      make("input", { type: "hidden", name, value }),
    );
    const submit = make(
      "button",
      { type: "submit", class: "button primary", "data-action": "complete" },
      back,
    );
    const form = make("form", { method: "post", action: completion.action }, ...fields, submit);
    // Submit once only: the site rejects a second submission with an alarming page.
    form.addEventListener("submit", () => (submit.disabled = true));
    return form;
  }
  if (completion.way === "redirect") {
    return make(
      "a",
      {
        class: "button primary",
        href: completion.url,
        "data-action": "complete",
        rel: "noreferrer",
      },
      back,
    );
  }
  return codeBox("Completion code", completion.code, "completion");
}

function contact(study: StudyInfo): string {
  const where = study.contact ? `write to ${study.contact} and name` : "tell us";
  return `If you have questions, or want your responses deleted, ${where} your participant code.`;
}

export function debrief(study: StudyInfo, state: SessionState, back: string): Page {
  return lastPage("debrief", () =>
    sheet("Thank you!", [
      note("All of your responses have arrived. This is what the study was about:"),
      make("div", { class: "prose" }, ...ABOUT[study.kind].map(note)),
      codeBox("Participant code", state.participant, "participant"),
      note(contact(study)),
      ...ending(state.completion, back),
    ]),
  );
}

function ending(completion: Completion | null, back: string): (HTMLElement | null)[] {
  const button = wayBack(completion, back);
  if (!button) return [];
  const last =
    completion?.way === "code"
      ? "If you were asked for a completion code, this is it. Then you can close this page."
      : "One thing is left to do, to confirm that you are done:";
  return [make("hr"), note(last), button];
}

export function failed(study: StudyInfo, state: SessionState, back: string): Page {
  return lastPage("failed", () =>
    sheet("Thank you for trying", [
      note(
        "The short test shows whether such images can be told apart on this screen, in this light, at this time of day. This time too few responses were correct for the main part, so the study ends here for you. It says nothing about you: it happens to many participants.",
      ),
      codeBox("Participant code", state.participant, "participant"),
      note(contact(study)),
      ...ending(state.completion, back),
    ]),
  );
}

export function anotherTab(): Page {
  return page("another-tab", () =>
    sheet(
      "The study continues in another tab",
      [
        note(
          "It is open in a second tab or window, and only one of them can continue. Your responses are safe.",
        ),
        note("You can close this one, or continue here instead."),
      ],
      [button("take-over", "Continue here")],
    ),
  );
}
