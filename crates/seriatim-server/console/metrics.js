// @ts-check
// The Prometheus text format, as far as the server writes it.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/**
 * Samples by the name of their metric.
 * @typedef {Map<string, { labels: Record<string, string>, value: number }[]>} Samples
 */

/**
 * The samples of the metrics that are wanted.
 * @param {string} text
 * @param {string[]} wanted
 */
export function parse(text, wanted) {
  /** @type {Samples} */
  const samples = new Map(wanted.map((name) => [name, []]));
  for (const line of text.split("\n")) {
    if (line === "" || line[0] === "#") continue;
    const end = line.search(/[{\s]/);
    const list = samples.get(line.slice(0, end));
    if (list === undefined) continue;
    const [, , labels, value] = LINE.exec(line) ?? [];
    if (value === undefined) continue;
    list.push({
      labels: Object.fromEntries([...(labels ?? "").matchAll(LABEL)].map(([, name, text]) => [name, text])),
      value: Number(value),
    });
  }
  return samples;
}

/**
 * The sum of the samples of a metric; null if there are none.
 * @param {Samples} samples
 * @param {string} name
 */
export function sum(samples, name) {
  const list = samples.get(name) ?? [];
  return list.length === 0 ? null : list.reduce((total, sample) => total + sample.value, 0);
}

/**
 * A quantile of a summary; null if it has no recent values.
 * @param {Samples} samples
 * @param {string} name
 * @param {number} wanted
 */
export function quantile(samples, name, wanted) {
  const list = (samples.get(name) ?? []).filter((sample) => Number(sample.labels.quantile) === wanted);
  const value = list.length === 0 ? 0 : Math.max(...list.map((sample) => sample.value));
  return value > 0 ? value : null;
}
