// Feedback after a practice trial; continues automatically.

import { make } from "../dom";
import { icon } from "../icons";
import type { Page } from "../plugins/screen";
import { text, type TextKey } from "../texts";
import type { Feedback, StudyInfo } from "../wire";

const CORRECT_MS = 900;
const INCORRECT_MS = 2200;

export function feedback(study: StudyInfo, result: Feedback, choice: string): Page {
  return {
    screen: "feedback",
    build(done) {
      setTimeout(() => done("seen"), result.correct ? CORRECT_MS : INCORRECT_MS);
      const kind = result.correct ? "correct" : "incorrect";
      const missed = choice === "" ? text("feedback.late") : text("feedback.incorrect");
      const verdict = result.correct ? text("feedback.correct") : missed;
      return make(
        "div",
        { class: `feedback ${kind}`, role: "status" },
        make("p", { class: "verdict" }, verdict),
        study.kind === "categorise" ? icon(result.truth) : null,
        make("p", {}, text(`feedback.truth.${result.truth}` as TextKey)),
      );
    },
  };
}
