/**
 * Signing in: the ticket in the address is exchanged once for the key, which every request carries. The key is kept in
 * the origin's storage, so that reloading and further tabs need no new address; other ports have other storage.
 */
import { store, stored } from "../../elements/storage.js";
import { errorOf } from "../../sources/served.js";

const KEPT = "regard-key";
const GONE = "The studio does not answer: it has ended, or its machine is out of reach.\nStart it again with `regard studio`; this page keeps the text.";
const TICKET = /(?:^#|&)ticket=([\w-]+)/;
let key = stored(KEPT);

/** Exchange the ticket of the address, if there is one, and remove it from the address. */
export async function signIn() {
  const ticket = TICKET.exec(location.hash)?.[1];
  if (!ticket) return;
  const rest = location.hash.replace(TICKET, "").replace(/^[#&]+/, "");
  history.replaceState(history.state, "", location.pathname + (rest ? `#${rest}` : ""));
  const reply = await fetch("/session", { method: "POST", headers: { Authorization: `Ticket ${ticket}` } }).catch(() => {
    throw new Error(GONE);
  });
  if (reply.ok) {
    ({ key } = await reply.json());
    store(KEPT, key ?? ""); // without storage, a reloaded page needs a new address
  } else if (!key) throw await errorOf(reply);
}

/** `fetch` with the key. @param {string} where @param {RequestInit} [options] */
export async function send(where, options = {}) {
  const headers = { ...options.headers, ...(key ? { Authorization: `Bearer ${key}` } : {}) };
  const reply = await fetch(where, { ...options, credentials: "omit", headers }).catch((error) => {
    throw options.signal?.aborted ? error : new Error(GONE);
  });
  const other = reply.status === 401 ? stored(KEPT) : null; // another tab may have signed in meanwhile
  if (!other || other === key) return reply;
  key = other;
  return send(where, options);
}
