// The last pages: debriefing, one code, and a button back to the platform, labeled `back`.

import { button, make } from "../dom";
import type { Page } from "../plugins/screen";
import { listed, text, type TextKey } from "../texts";
import { codeBox, lastPage, note, page, sheet } from "./layout";
import type { Completion, SessionState, StudyInfo } from "../wire";

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
  return null;
}

/**
 * The code and the way back. There is one code only: where a completion code is shown, it also
 * identifies the participant.
 */
function ending(study: StudyInfo, state: SessionState, back: string): (HTMLElement | null)[] {
  const { completion, participant } = state;
  const contact = study.contact
    ? text("end.contact", { contact: study.contact })
    : text("end.no-contact");
  if (completion?.way === "code") {
    const box = codeBox(text("code.completion"), completion.code, "completion");
    return [box, note(contact), note(text("end.code"))];
  }
  const button = wayBack(completion, back);
  return [
    codeBox(text("code.participant"), participant, "participant"),
    note(contact),
    ...(button ? [make("hr"), note(text("end.site")), button] : []),
  ];
}

function changed(study: StudyInfo, state: SessionState): string {
  const words = state.changes.map((change) => text(`debrief.change.${change}` as TextKey));
  const how = words.length > 0 ? text("debrief.changes", { changes: listed(words) }) : "";
  return `${text(`debrief.${study.kind}.changed`)} ${how}`.trim();
}

export function debrief(study: StudyInfo, state: SessionState, back: string): Page {
  return lastPage("debrief", () =>
    sheet(text("debrief.heading"), [
      note(text("debrief.arrived")),
      make(
        "div",
        { class: "prose" },
        note(changed(study, state)),
        note(text(`debrief.${study.kind}.why`)),
      ),
      ...ending(study, state, back),
    ]),
  );
}

export function failed(study: StudyInfo, state: SessionState, back: string): Page {
  return lastPage("failed", () =>
    sheet(text("failed.heading"), [note(text("failed.text")), ...ending(study, state, back)]),
  );
}

/** The participant's data were deleted during the session. */
export function withdrawn(): Page {
  return lastPage("withdrawn", () =>
    sheet(text("withdrawn.heading"), [note(text("withdrawn.text"))]),
  );
}

export function anotherTab(): Page {
  return page("another-tab", () =>
    sheet(
      text("another-tab.heading"),
      [note(text("another-tab.text")), note(text("another-tab.choose"))],
      [button("take-over", text("another-tab.continue"))],
    ),
  );
}
