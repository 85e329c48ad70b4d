// Pages before a session begins: consent, eyesight, and reasons why one cannot begin.

import { button, make, paragraphs } from "../dom";
import type { Page } from "../plugins/screen";
import { text, type TextKey } from "../texts";
import { codeBox, lastPage, note, page, sheet } from "./layout";
import type { Eyesight, StudyInfo } from "../wire";

/** Minimum width of the window in which the grid is easy to read, in CSS pixels. */
export const NARROWEST = 1024;

/** The same in a window of which the participant has enlarged the content, to 200 % at most. */
const NARROWEST_ENLARGED = 600;

function facts(study: StudyInfo): HTMLElement {
  const { practice, qualification, trials } = study.counts;
  const shown = study.kind === "categorise" ? text("fact.images") : text("fact.pairs");
  const rows: [string, string][] = [
    [text("fact.time"), text("fact.time.value", { minutes: study.minutes })],
    [shown, `${practice + qualification + trials}`],
    [text("fact.payment"), study.payment],
    [text("fact.institution"), study.institution],
    [text("fact.approval"), study.approval],
    [text("fact.contact"), study.contact],
  ];
  const list = rows
    .filter(([, value]) => value !== "")
    .map(([name, value]) => make("div", {}, make("dt", {}, name), make("dd", {}, value)));
  return make("dl", { class: "facts" }, ...list);
}

export function consent(study: StudyInfo): Page {
  return page("consent", () =>
    sheet(
      study.title,
      [
        facts(study),
        make("div", { class: "prose" }, ...paragraphs(study.consent)),
        make("p", { class: "small" }, text("consent.note")),
      ],
      [
        button("agree", text("consent.agree")),
        button("decline", text("consent.decline"), "secondary"),
      ],
    ),
  );
}

/** Nothing has been sent to the server when this page is shown. */
export function declined(): Page {
  return page("declined", () =>
    sheet(
      text("declined.heading"),
      [note(text("declined.text")), note(text("rejected.site")), note(text("declined.back"))],
      [button("reconsider", text("declined.again"), "secondary")],
    ),
  );
}

const EYESIGHTS: readonly Eyesight[] = ["normal", "corrected", "impaired", "undisclosed"];

/** Ends with the action `eyesight-ANSWER`. */
export function eyesight(): Page {
  const answers = EYESIGHTS.map((name) =>
    button(`eyesight-${name}`, text(`eyesight.${name}`), "secondary"),
  );
  return page("eyesight", () =>
    sheet(text("eyesight.heading"), [
      note(text("eyesight.text")),
      make("div", { class: "answers" }, ...answers),
    ]),
  );
}

/** Return the answer that an action of the page `eyesight` gives. */
export function eyesightOf(action: string | undefined): Eyesight | null {
  return EYESIGHTS.find((name) => action === `eyesight-${name}`) ?? null;
}

export function preview(study: StudyInfo, notice: string): Page {
  return lastPage("preview", () =>
    sheet(study.title, [
      make("p", { class: "banner" }, notice),
      facts(study),
      make("div", { class: "prose" }, ...paragraphs(study.consent)),
    ]),
  );
}

/** Ends automatically once the window is wide enough. */
export function phone(touch: boolean): Page {
  return {
    screen: "phone",
    build(done) {
      const look = (): void => {
        if (!isSuitable()) return;
        window.removeEventListener("resize", look);
        done("suitable");
      };
      window.addEventListener("resize", look);
      const why = touch
        ? text("phone.touch")
        : text("phone.narrow", { least: `${NARROWEST}`, width: `${innerWidth}` });
      return sheet(text("phone.heading"), [
        note(why),
        note(text("phone.elsewhere")),
        codeBox(text("phone.link"), location.href, "link"),
      ]);
    },
  };
}

/** Ends with the participant code as its action; `wrong`: whether the last one was not right. */
export function elsewhere(wrong: boolean): Page {
  return {
    screen: "elsewhere",
    build(done) {
      const field = make("input", {
        class: "code",
        "aria-label": text("code.participant"),
        autocomplete: "off",
        maxlength: "64",
        required: "",
      });
      const form = make(
        "form",
        {},
        make("div", { class: "codebox" }, make("span", {}, text("code.participant")), field),
        make(
          "button",
          { class: "button primary", "data-action": "resume" },
          text("another-tab.continue"),
        ),
      );
      // The page's policy allows forms to be sent to recruiting sites only.
      form.addEventListener("submit", (event) => {
        event.preventDefault();
        done(field.value.trim());
      });
      return sheet(text("elsewhere.heading"), [
        note(text("elsewhere.text")),
        wrong ? make("p", { class: "banner" }, text("elsewhere.wrong")) : null,
        form,
        note(text("rejected.site")),
      ]);
    },
  };
}

/** Whether touch is the only pointing device. */
export function isTouchOnly(): boolean {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

export function isSuitable(): boolean {
  // Enlarging the content makes the inner width smaller, and leaves the outer one as it is.
  const isWide = innerWidth >= NARROWEST;
  const isEnlarged = outerWidth >= NARROWEST && innerWidth >= NARROWEST_ENLARGED;
  return (isWide || isEnlarged) && !isTouchOnly();
}

export function rejected(code: string): Page {
  const screen = SCREENS[code] ?? "problem";
  return lastPage(screen, () =>
    sheet(text(`rejected.${screen}.heading` as TextKey), [
      note(text(`rejected.${screen}.text` as TextKey)),
      RETURNED.includes(screen) ? note(text("rejected.site")) : null,
    ]),
  );
}

/** The screen for a code of the server, and those after which a task is given back. */
const SCREENS: Record<string, string> = {
  full: "full",
  again: "again",
  closed: "closed",
  no_study: "unknown",
  bad_request: "bad-link",
};
const RETURNED = ["full", "again", "closed"];
