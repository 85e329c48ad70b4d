// Detects events that invalidate a trial: the page hidden, out of focus, or resized.

import type { Flag } from "./wire";

/** Collects flags from its construction until `stop`. */
export class Watch {
  readonly flags = new Set<Flag>();

  constructor() {
    this.onVisibility();
    if (!document.hasFocus()) this.flags.add("blurred_focus");
    document.addEventListener("visibilitychange", this.onVisibility);
    window.addEventListener("blur", this.onBlur);
    window.addEventListener("resize", this.onResize);
  }

  stop(): Flag[] {
    document.removeEventListener("visibilitychange", this.onVisibility);
    window.removeEventListener("blur", this.onBlur);
    window.removeEventListener("resize", this.onResize);
    return [...this.flags].sort();
  }

  private readonly onVisibility = (): void => {
    if (document.visibilityState === "hidden") this.flags.add("hidden");
  };

  private readonly onBlur = (): void => {
    this.flags.add("blurred_focus");
  };

  private readonly onResize = (): void => {
    this.flags.add("resized");
  };
}
