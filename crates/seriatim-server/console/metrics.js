// The Prometheus text format, as far as the server writes it.

const LINE = /^([a-zA-Z_:][\w:]*)(?:\{(.*)\})?\s+(\S+)/;
const LABEL = /([a-zA-Z_]\w*)="((?:[^"\\]|\\.)*)"/g;

/** The samples of some metrics: `Map(name → [{labels, value}])`. The others are not kept. */
export function parse(text, wanted) {
  const samples = new Map([...wanted].map((name) => [name, []]));
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

/** What the samples of a metric add up to; null if there are none. */
export function sum(samples, name) {
  const list = samples.get(name) ?? [];
  return list.length === 0 ? null : list.reduce((total, sample) => total + sample.value, 0);
}

/** A quantile of a summary; null if it has measured nothing lately. */
export function quantile(samples, name, wanted) {
  const list = (samples.get(name) ?? []).filter((sample) => Number(sample.labels.quantile) === wanted);
  const value = list.length === 0 ? 0 : Math.max(...list.map((sample) => sample.value));
  return value > 0 ? value : null;
}
