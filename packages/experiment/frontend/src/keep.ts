// Small values that survive a reload, in the best storage that the browser allows; random ids.

type Shelf = Pick<Storage, "getItem" | "setItem" | "removeItem">;

function usable(shelf: () => Storage): Storage | null {
  try {
    const found = shelf();
    found.setItem("eyechart.try", "1");
    found.removeItem("eyechart.try");
    return found;
  } catch {
    return null; // not allowed, as in some iframes of other sites, or full
  }
}

function memory(): Shelf {
  const kept = new Map<string, string>();
  return {
    getItem: (key) => kept.get(key) ?? null,
    setItem: (key, value) => void kept.set(key, value),
    removeItem: (key) => void kept.delete(key),
  };
}

/** Return the most persistent storage available. */
export function bestShelf(): Shelf {
  return usable(() => localStorage) ?? usable(() => sessionStorage) ?? memory();
}

/** Return a random UUID (version 4); crypto.randomUUID is missing on pages without TLS. */
export function uuid(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  bytes[6] = (bytes[6]! & 0x0f) | 0x40;
  bytes[8] = (bytes[8]! & 0x3f) | 0x80;
  const hex = Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
  return hex.replace(/^(.{8})(.{4})(.{4})(.{4})(.{12})$/, "$1-$2-$3-$4-$5");
}

export type { Shelf };
