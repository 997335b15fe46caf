/** What a page and the worker that runs its model say to each other. Every request is answered once, by its id. */
import type { Sampling } from "./sampler.js";

/** Where a file of a model comes from: an address, or the blocks of a one-file page, in base64. */
export type FileFrom = { address: string } | { blocks: string[] };

export interface Tasks {
  /** Bytes of the model's files that this browser has kept. The manifest is model.json, parsed. */
  kept: { asks: { manifest: unknown }; gives: { bytes: number } };
  /** Loads a model; `kept` says whether the browser keeps its files. */
  open: {
    asks: { module: WebAssembly.Module; manifest: unknown; weights: FileFrom; tokenizer: FileFrom | null };
    gives: { name: string; writes: boolean; kept: boolean };
  };
  read: { asks: { text: string }; gives: { reading: number; description: Description } };
  write: {
    asks: { text: string; options: Sampling & { tokens?: number } };
    gives: { reading: number; description: Description };
  };
  /** A query of a view; the answer is a packed frame. */
  ask: { asks: { reading: number; kind: string; parameters: Record<string, unknown> }; gives: { frame: ArrayBuffer } };
  close: { asks: { reading: number }; gives: Record<string, never> };
  /** Bytes of the kernel's memory. */
  memory: { asks: Record<string, never>; gives: { bytes: number } };
}

export type Task = keyof Tasks;
export type Request = { [Name in Task]: { id: number; task: Name } & Tasks[Name]["asks"] }[Task] | { cancel: number };

/** `tokens` and `fits`: the length of a text that is too long, and how many of its characters can be read. */
export type Failure = { message: string; name: string; tokens?: number; fits?: number };
export type Reply = { id: number; result: Tasks[Task]["gives"] } | { id: number; error: Failure } | { id: number; news: News };

/** A worker, or one end of a channel. */
export interface Port<Incoming, Outgoing> {
  postMessage(message: Outgoing, transfer?: Transferable[]): void;
  onmessage: ((event: { data: Incoming }) => void) | null;
}
