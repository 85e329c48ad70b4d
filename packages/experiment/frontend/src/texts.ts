// The texts of the pages, from one catalogue per language that the server's texts are in as well.

import de from "../../src/eyechart_experiment/languages/de.json";
import en from "../../src/eyechart_experiment/languages/en.json";

export type TextKey = keyof typeof en;
type Counted = TextKey extends infer Key ? (Key extends `${infer Stem}.other` ? Stem : never) : never;
type Values = Record<string, string | number>;

const CATALOGUES: Record<string, Record<TextKey, string>> = { en, de };

/** The study's language, which the server writes into the page. */
export function language(): string {
  const tag = typeof document === "undefined" ? "" : document.documentElement.lang;
  return tag in CATALOGUES ? tag : "en";
}

/** Return a text with `{name}` replaced by the value of that name. */
export function text(key: TextKey, values: Values = {}): string {
  const found = CATALOGUES[language()]?.[key] ?? en[key];
  return found.replace(/\{(\w+)\}/g, (all, name: string) => shown(values[name] ?? all));
}

/** Return the text for this number of things. */
export function counted(stem: Counted, count: number): string {
  return text(`${stem}.${count === 1 ? "one" : "other"}` as TextKey, { count });
}

/** Join parts of a sentence as the language does: "a, b, and c". */
export function listed(parts: string[]): string {
  return new Intl.ListFormat(language(), { type: "conjunction" }).format(parts);
}

function shown(value: string | number): string {
  if (typeof value === "string") return value;
  return value.toLocaleString(language(), { maximumFractionDigits: 1 });
}
