// Create elements. Text is inserted as text only, so that no external input becomes markup.

type Child = Node | string | null;

export function make<Tag extends keyof HTMLElementTagNameMap>(
  tag: Tag,
  attributes: Record<string, string> = {},
  ...children: Child[]
): HTMLElementTagNameMap[Tag] {
  const element = document.createElement(tag);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children.filter((child) => child !== null));
  return element;
}

/** A button that robots and tests find by its `action`, and participants by its text. */
export function button(action: string, text: string, kind = "primary"): HTMLButtonElement {
  return make("button", { type: "button", class: `button ${kind}`, "data-action": action }, text);
}

/** Split a text into paragraphs at empty lines. */
export function paragraphs(text: string): HTMLParagraphElement[] {
  return text
    .split(/\n\s*\n/)
    .map((part) => part.trim())
    .filter((part) => part !== "")
    .map((part) => make("p", {}, part));
}
