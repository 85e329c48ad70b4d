// Feedback after a practice trial; continues automatically.

import { make } from "../dom";
import { icon } from "../icons";
import type { Page } from "../plugins/screen";
import type { Feedback, StudyInfo } from "../wire";

const CORRECT_MS = 900;
const INCORRECT_MS = 2200;

export function feedback(study: StudyInfo, result: Feedback, choice: string): Page {
  return {
    screen: "feedback",
    build(done) {
      setTimeout(() => done("seen"), result.correct ? CORRECT_MS : INCORRECT_MS);
      const kind = result.correct ? "correct" : "incorrect";
      const verdict = result.correct ? "Correct" : choice === "" ? "No response in time" : "Not quite";
      const truth = study.kind === "categorise" ? "It was" : "They were changed";
      const name = study.kind === "categorise" ? result.truth : adverb(result.truth);
      return make(
        "div",
        { class: `feedback ${kind}`, role: "status" },
        make("p", { class: "verdict" }, verdict),
        study.kind === "categorise" ? icon(result.truth) : null,
        make("p", {}, `${truth} ${article(study, name)}`, make("strong", {}, name), "."),
      );
    },
  };
}

function article(study: StudyInfo, name: string): string {
  if (study.kind !== "categorise") return "";
  return /^[aeiou]/.test(name) ? "an " : "a ";
}

function adverb(truth: string): string {
  return truth === "same" ? "in the same way" : "in different ways";
}
