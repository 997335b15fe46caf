/** What the browser keeps between visits; without storage, nothing. */

/** @param {string} name @returns {string|null} */
export function stored(name) {
  try {
    return localStorage.getItem(name);
  } catch {
    return null;
  }
}

/** @param {string} name @param {string} value */
export function store(name, value) {
  try {
    localStorage.setItem(name, value);
  } catch {
    // every visit is the first
  }
}
