// The steps of a visit, shared by the code that chooses the next step and the code that shows it.

import type { Choice } from "./choices";
import type { Ready } from "./feed";
import type { PendingStore } from "./pending";
import type { Outcome } from "./plugins/outcome";
import type { Page } from "./plugins/screen";
import type { Arrival } from "./recruit";
import type { Connection } from "./retry";
import type { Session } from "./session";
import type { StudyInfo } from "./wire";

/** The next step: a page, or a trial with everything that it needs. */
export type Step =
  | { kind: "page"; page: Page }
  | {
      kind: "trial";
      study: StudyInfo;
      ready: Ready;
      mask: ImageBitmap | null;
      choices: readonly Choice[];
      period: number;
      onPhase: (phase: string) => void;
    };

/** The result of a step: the action on a page, or a trial's outcome. */
export type Result = { action?: string; outcome?: Outcome };

export type Steps<T> = AsyncGenerator<Step, T, Result>;

/** `interrupted`: whether a page reported a lost connection since the last trial. */
export interface World {
  who: Arrival;
  session: Session;
  connection: Connection;
  pending: PendingStore;
  interrupted: boolean;
}

export function show(page: Page): Step {
  return { kind: "page", page };
}
