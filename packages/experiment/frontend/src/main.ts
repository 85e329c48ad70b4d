// Entry point of the page: the participant, the study, and the browser's storage.

import "./styles/app.css";

import { visit } from "./flow";
import { bestShelf, uuid, type Shelf } from "./keep";
import { openPending } from "./pending";
import { arrival } from "./recruit";
import { Connection } from "./retry";
import { Session } from "./session";
import type { World } from "./steps";
import { run } from "./timeline";

const CLIENT = "eyechart.client";

/** This browser's random id, which identifies a participant who uses a plain link. */
function clientOf(shelf: Shelf): string {
  const kept = shelf.getItem(CLIENT);
  if (kept) return kept;
  const fresh = uuid();
  shelf.setItem(CLIENT, fresh);
  return fresh;
}

async function begin(): Promise<void> {
  const root = document.getElementById("app");
  if (!root) return;
  const shelf = bestShelf();
  const client = clientOf(shelf);
  const who = arrival(location.pathname, location.search, client);
  const connection = new Connection();
  const session = new Session(who, client, shelf, connection);
  const pending = await openPending();
  const world: World = { who, session, connection, pending, interrupted: false };
  await run(visit(world), world, root);
}

void begin();
