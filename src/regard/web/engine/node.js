/** Loads the kernel in Node, where there is no page: importing this module waits until it is there. */
import { readFile } from "node:fs/promises";
import { loadKernel } from "./kernel.js";

await loadKernel(await readFile(new URL("./regard.wasm", import.meta.url)));
