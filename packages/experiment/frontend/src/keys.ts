// Keys by their position on the keyboard, so that the response grid is under one hand on any
// layout; their labels come from the browser if it provides them, or else from the language.

import type { Choice } from "./choices";
import { text, type TextKey } from "./texts";
import type { StudyInfo } from "./wire";

/** Codes of the 4 × 4 block of keys, in the order of the grid's cells, column by column. */
export const BLOCK: readonly string[] = [
  "Digit1",
  "KeyQ",
  "KeyA",
  "KeyZ",
  "Digit2",
  "KeyW",
  "KeyS",
  "KeyX",
  "Digit3",
  "KeyE",
  "KeyD",
  "KeyC",
  "Digit4",
  "KeyR",
  "KeyF",
  "KeyV",
];

const TWO: readonly string[] = ["KeyF", "KeyJ"];

interface LayoutMap {
  get(code: string): string | undefined;
}

type Printed = (code: string) => string;

/** Return the label on the usual keyboard of the study's language. */
function usual(code: string): string {
  return text("keys.block")[BLOCK.indexOf(code)] ?? code.replace(/^(Digit|Key)/, "");
}

/** Return a function from a key's code to its label, on this keyboard or else on a usual one. */
async function printedKeys(): Promise<Printed> {
  const keyboard = (navigator as { keyboard?: { getLayoutMap?: () => Promise<LayoutMap> } })
    .keyboard;
  try {
    const layout = await keyboard?.getLayoutMap?.();
    return (code) => (layout?.get(code) ?? usual(code)).toUpperCase();
  } catch {
    return usual; // not available in another site's iframe
  }
}

/** Return the index of an event's key among some codes; −1 if it is none of them. */
export function placeOf(event: KeyboardEvent, codes: readonly string[]): number {
  if (event.ctrlKey || event.altKey || event.metaKey || event.repeat) return -1;
  if (event.code !== "") return codes.indexOf(event.code);
  return codes.map(usual).indexOf(event.key.toUpperCase());
}

/** Return the choices of a study with their keys. */
export async function choicesOf(study: StudyInfo): Promise<Choice[]> {
  const codes = study.kind === "categorise" ? BLOCK : TWO;
  const printed = await printedKeys();
  return study.choices.map((name, place) => {
    const code = codes[place] ?? "";
    return { name, label: text(`category.${name}` as TextKey), code, printed: printed(code) };
  });
}
