/** The parts of a tokenizer.json, checked as they are read: an unknown part is an error, never a wrong token. */

/** @typedef {{type?: unknown, [name: string]: unknown}} Component */

/**
 * @param {string} role what the part is: normalizer, decoder
 * @param {unknown} value
 * @returns {Component}
 */
export function componentOf(role, value) {
  if (typeof value !== "object" || value === null || Array.isArray(value))
    throw new Error(`The ${role} of the tokenizer is ${describe(value)}, expected an object.`);
  return /** @type {Component} */ (value);
}

/**
 * The value of `makers` for the type of a part.
 * @template T
 * @param {string} role @param {unknown} value @param {Record<string, T>} makers
 * @returns {[T, Component]}
 */
export function choose(role, value, makers) {
  const component = componentOf(role, value);
  const { type } = component;
  if (typeof type !== "string" || !Object.hasOwn(makers, type))
    throw new Error(
      `The ${role} ${describe(type)} of the tokenizer is not supported. Known are ${Object.keys(makers).join(", ")}.`,
    );
  return [makers[type], component];
}

/** @param {Component} component @param {string} name @param {boolean} [fallback] */
export function booleanOf(component, name, fallback) {
  const value = component[name] ?? fallback;
  if (typeof value !== "boolean") throw wrong(component, name, "true or false");
  return value;
}

/** @param {Component} component @param {string} name @returns {string|null} */
export function optionalString(component, name) {
  const value = component[name] ?? null;
  if (value !== null && typeof value !== "string") throw wrong(component, name, "a string or null");
  return value;
}

/** @param {Component} component @param {string} name @returns {unknown[]} */
export function listOf(component, name) {
  const value = component[name];
  if (!Array.isArray(value)) throw wrong(component, name, "a list");
  return value;
}

/**
 * An option that changes tokens and is supported with these values only.
 * @param {Component} component @param {string} name @param {unknown[]} values
 */
export function requireOneOf(component, name, values) {
  const value = component[name] ?? null;
  if (!values.includes(value))
    throw new Error(
      `${component.type} with ${name} ${describe(value)} is not supported; known: ${values.map(describe).join(", ")}.`,
    );
}

/** @param {Component} component @param {string} name @param {string} expected */
export function wrong(component, name, expected) {
  return new Error(
    `${component.type} of the tokenizer has ${name} ${describe(component[name])}, expected ${expected}.`,
  );
}

/** @param {unknown} value */
export function describe(value) {
  return String(JSON.stringify(value)).slice(0, 120);
}
