// Pages before a session begins: consent, and reasons why one cannot begin.

import { button, make, paragraphs } from "../dom";
import type { Page } from "../plugins/screen";
import { lastPage, note, page, sheet } from "./layout";
import type { StudyInfo } from "../wire";

/** Minimum width of the window in which the grid is easy to read, in CSS pixels. */
export const NARROWEST = 1024;

function facts(study: StudyInfo): HTMLElement {
  const { practice, qualification, trials } = study.counts;
  const rows: [string, string][] = [
    ["Time", `about ${study.minutes} minutes`],
    [study.kind === "categorise" ? "Images" : "Pairs", `${practice + qualification + trials}`],
  ];
  if (study.payment) rows.push(["Payment", study.payment]);
  if (study.contact) rows.push(["Contact", study.contact]);
  const list = rows.map(([name, value]) =>
    make("div", {}, make("dt", {}, name), make("dd", {}, value)),
  );
  return make("dl", { class: "facts" }, ...list);
}

export function consent(study: StudyInfo): Page {
  return page("consent", () =>
    sheet(
      study.title,
      [
        facts(study),
        make("div", { class: "prose" }, ...paragraphs(study.consent)),
        make("p", { class: "small" }, "By pressing the button you agree to this."),
      ],
      [button("agree", "I agree and want to take part")],
    ),
  );
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
        ? "The images are shown for a fraction of a second and you respond with keys or a mouse, so you need a computer with a keyboard."
        : `The window must be at least ${NARROWEST} pixels wide, but this one is ${innerWidth} pixels wide. Make it wider if you can; the study then continues here.`;
      return sheet("Please use a larger screen", [
        note(why),
        note("If this is a phone or a tablet, open the same link on a computer. Thank you!"),
      ]);
    },
  };
}

/** Whether touch is the only pointing device. */
export function isTouchOnly(): boolean {
  return matchMedia("(pointer: coarse)").matches && !matchMedia("(any-pointer: fine)").matches;
}

export function isSuitable(): boolean {
  return innerWidth >= NARROWEST && !isTouchOnly();
}

export function rejected(code: string): Page {
  const [screen, heading, text] = REJECTIONS[code] ?? REJECTIONS["problem"]!;
  return lastPage(screen, () => sheet(heading, text.map(note)));
}

const REJECTIONS: Record<string, [string, string, string[]]> = {
  full: [
    "full",
    "No more responses are needed",
    [
      "Thank you for coming. The study does not need more participants at the moment, so there is nothing left to do here.",
      "If you came from a recruiting site, please return the task there; this has no disadvantage for you.",
    ],
  ],
  again: [
    "again",
    "You have taken part in this study before",
    [
      "Thank you for coming back. Everybody can take part only once, so there is nothing left to do here.",
      "If you came from a recruiting site, please return the task there; this has no disadvantage for you.",
    ],
  ],
  closed: [
    "closed",
    "This study is closed",
    [
      "Thank you for coming. At the moment nobody new can take part.",
      "If you came from a recruiting site, please return the task there; this has no disadvantage for you.",
    ],
  ],
  no_study: [
    "unknown",
    "There is no such study here",
    ["Please check the link that brought you here: its last characters may be missing."],
  ],
  bad_request: [
    "bad-link",
    "This link does not work",
    [
      "The address that brought you here is incomplete. Please open the study again from the page that offered it.",
    ],
  ],
  problem: [
    "problem",
    "Something went wrong",
    [
      "Your responses so far are safe. Please reload this page in a moment; you will continue where you were.",
    ],
  ],
};
