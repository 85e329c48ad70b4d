// Responses not yet confirmed by the server, kept in IndexedDB so that a reload loses none.

import type { ResponseBody } from "./wire";

/** `owner`: its study and participant. `order`: when it was given, in ms. */
export interface Pending {
  trial: string;
  owner: string;
  order: number;
  body: ResponseBody;
}

export interface PendingStore {
  put(pending: Pending): Promise<void>;
  remove(trial: string): Promise<void>;
  of(owner: string): Promise<Pending[]>;
}

const DATABASE = "eyechart";
const STORE = "responses";
const PATIENCE = 2_000;

/** Return a store in IndexedDB, or in memory if that is not available. */
export async function openPending(): Promise<PendingStore> {
  try {
    return inDatabase(await withPatience(openDatabase()));
  } catch {
    return inMemory();
  }
}

function openDatabase(): Promise<IDBDatabase> {
  return new Promise((resolve, reject) => {
    const request = indexedDB.open(DATABASE, 1);
    request.onupgradeneeded = () => {
      request.result.createObjectStore(STORE, { keyPath: "trial" }).createIndex("owner", "owner");
    };
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
    request.onblocked = () => reject(new Error("IndexedDB is blocked"));
  });
}

function withPatience<T>(promise: Promise<T>): Promise<T> {
  return Promise.race([
    promise,
    new Promise<T>((_, reject) => setTimeout(() => reject(new Error("IndexedDB hangs")), PATIENCE)),
  ]);
}

function inDatabase(database: IDBDatabase): PendingStore {
  const spare = inMemory(); // for writes that IndexedDB rejects, such as when the disk is full
  const change = async (work: (store: IDBObjectStore) => void): Promise<void> => {
    const transaction = database.transaction(STORE, "readwrite");
    const over = finished(transaction);
    work(transaction.objectStore(STORE));
    await over;
  };
  return {
    put: (pending) => change((store) => void store.put(pending)).catch(() => spare.put(pending)),
    remove: async (trial) => {
      await spare.remove(trial);
      await change((store) => void store.delete(trial)).catch(() => undefined);
    },
    of: async (owner) => {
      const kept = await read(database, owner).catch(() => []);
      return inOrder([...kept, ...(await spare.of(owner))]);
    },
  };
}

function read(database: IDBDatabase, owner: string): Promise<Pending[]> {
  return new Promise((resolve, reject) => {
    const store = database.transaction(STORE, "readonly").objectStore(STORE);
    const request = store.index("owner").getAll(owner) as IDBRequest<Pending[]>;
    request.onsuccess = () => resolve(request.result);
    request.onerror = () => reject(request.error ?? new Error("IndexedDB failed"));
  });
}

function finished(transaction: IDBTransaction): Promise<void> {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = transaction.onerror = () =>
      reject(transaction.error ?? new Error("IndexedDB failed"));
  });
}

export function inMemory(): PendingStore {
  const kept = new Map<string, Pending>();
  return {
    put: async (pending) => void kept.set(pending.trial, pending),
    remove: async (trial) => void kept.delete(trial),
    of: async (owner) => inOrder([...kept.values()].filter((each) => each.owner === owner)),
  };
}

function inOrder(responses: Pending[]): Pending[] {
  return responses.sort((a, b) => a.order - b.order);
}
