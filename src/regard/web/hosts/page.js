/** The one-file page. */
import { startPage } from "./one_file.js";

// The data of the first view precedes this script; the source waits for the rest, which may still be loading.
startPage(document);
