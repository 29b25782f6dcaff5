// The set at a confidence, computed locally: an item is in the set at every confidence above its
// entry confidence. The tolerance is that of the library.

const TOLERANCE = 1e-9;

export const isIn = (entry, confidence) => entry < confidence - TOLERANCE;

// Size of the set, from the curve of all items.
export function size(answer, confidence) {
  if (answer.guarantees_precision) return answer.shown ?? 0;
  if (!answer.gives_confidence) return answer.n_candidates;
  const { entry_confidence: entries, size: sizes } = answer.curve;
  let low = 0;
  let high = entries.length;
  while (low < high) {
    const middle = (low + high) >> 1;
    if (isIn(entries[middle], confidence)) low = middle + 1;
    else high = middle;
  }
  return low === 0 ? 0 : sizes[low - 1];
}

// Positions, in the received items, of those in the set.
export function places(answer, confidence) {
  const entries = answer.items.entry_confidence;
  const all = entries.map((_, place) => place);
  // With a precision guarantee, the set is the top of the ranking; the server returns its length.
  if (answer.guarantees_precision) return all.slice(0, answer.shown ?? 0);
  return answer.gives_confidence ? all.filter((place) => isIn(entries[place], confidence)) : all;
}

export const everythingQualifies = (answer, confidence) =>
  answer.gives_confidence && confidence > answer.highest_confidence + TOLERANCE;
