/**
 * A source whose description is already known.
 * @param {Source} source @param {Description} description
 * @returns {Source}
 */
export function described(source, description) {
  if (!description) return source;
  return {
    ask: (kind, parameters, options) =>
      kind === "describe"
        ? Promise.resolve({ header: description, arrays: {} })
        : source.ask(kind, parameters, options),
  };
}
