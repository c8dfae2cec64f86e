// A workflow's history, folded: each operation by kind and number, with the command that began it and the response that ended it.

const BEGINS = {
  start_timer: ["timer", (command) => `wait ${seconds(command.duration)} s`],
  schedule_activity: ["activity", (command) => command.activity_type],
  schedule_local_activity: ["local activity", (command) => command.activity_type],
  start_child: ["child workflow", (command) => command.workflow_type],
  signal_external: ["external signal", (command) => command.name],
  cancel_external: ["external cancel", (command) => command.target?.workflow_id ?? ""],
};
const CANCELS = {
  cancel_timer: "timer",
  cancel_activity: "activity",
  cancel_local_activity: "local activity",
  cancel_child: "child workflow",
  cancel_signal: "external signal",
};
const ANSWERS = {
  fire_timer: "timer",
  resolve_activity: "activity",
  resolve_local_activity: "local activity",
  resolve_child: "child workflow",
  resolve_external_signal: "external signal",
  resolve_external_cancel: "external cancel",
};
const ENDS = { complete: "completed", fail: "failed", cancelled: "cancelled", continue_as_new: "continued as new" };

/** A payload as people read it. */
export function plain(payload) {
  if (payload === null || payload === undefined || payload.encoding === "binary/null") return null;
  if (typeof payload.text !== "string") return payload;
  try {
    return JSON.parse(payload.text);
  } catch {
    return payload.text;
  }
}

function seconds(duration) {
  return duration === undefined ? null : (duration.secs ?? 0) + (duration.nanos ?? 0) / 1e9;
}

/** How a response ended an operation: `[word, detail]`. */
function outcome(job) {
  const { resolution, failure } = job;
  if (resolution === undefined) return failure ? ["failed", failure.message] : [job.job === "fire_timer" ? "fired" : "delivered", null];
  const told = resolution.failure?.message ?? resolution.cause ?? plain(resolution.result);
  return [resolution.outcome, told ?? null];
}

/**
 * What a run's entries amount to: `operations` in the order of their commands, `marks` for everything else that happened, and the
 * `runs` there are. Moments are milliseconds. Of several runs, the last one counts unless another is asked for.
 */
export function fold(entries, wanted = null) {
  const runs = [...new Set(entries.map((entry) => entry.run))];
  const run = wanted ?? runs.at(-1);
  const operations = [];
  const marks = [];
  const open = new Map();
  const key = (kind, number) => `${kind} ${number}`;

  const answer = (at, job) => {
    if (job.job === "resolve_child_start") {
      const child = open.get(key("child workflow", job.seq));
      if (child && job.resolution.outcome === "started") child.started = at;
      else if (child) Object.assign(child, { ended: at, outcome: job.resolution.outcome, detail: outcome(job)[1] });
      return;
    }
    const kind = ANSWERS[job.job];
    if (kind === undefined) {
      const detail = job.job === "start" ? (job.input ?? []).map(plain) : job.name ?? job.reason ?? job.id ?? null;
      if (!["random_seed", "evict", "query"].includes(job.job)) marks.push({ at, word: job.job.replaceAll("_", " "), detail, from: "world" });
      return;
    }
    const operation = open.get(key(kind, job.seq));
    if (operation === undefined || operation.ended !== null) return;
    const [word, detail] = outcome(job);
    Object.assign(operation, { ended: at, outcome: word, detail });
  };

  const command = (at, asked) => {
    const begins = BEGINS[asked.command];
    if (begins !== undefined) {
      const [kind, name] = begins;
      const due = asked.command === "start_timer" ? at + seconds(asked.duration) * 1000 : null;
      const operation = {
        kind, number: asked.seq, name: name(asked), path: asked.lineage?.path ?? null, input: (asked.input ?? []).map(plain),
        begun: at, started: null, ended: null, outcome: null, detail: null, due, attempt: 1,
      };
      operations.push(operation);
      open.set(key(kind, asked.seq), operation);
      return;
    }
    const cancelled = open.get(key(CANCELS[asked.command], asked.seq));
    if (cancelled !== undefined && cancelled.ended === null) {
      Object.assign(cancelled, ["cancel_timer", "cancel_signal"].includes(asked.command)
        ? { ended: at, outcome: "cancelled" } : { detail: "asked to stop" });
      return;
    }
    const detail = asked.failure?.message ?? plain(asked.result ?? asked.value) ?? asked.id ?? asked.protocol_id ?? null;
    marks.push({ at, word: ENDS[asked.command] ?? asked.command.replaceAll("_", " "), detail, from: "run", isEnd: asked.command in ENDS });
  };

  for (const entry of entries.filter((one) => one.run === run)) {
    for (const turn of entry.turns ?? []) {
      const at = turn.time / 1000;
      turn.jobs.forEach((job) => answer(at, job));
      turn.commands.forEach((asked) => command(at, asked));
    }
    for (const retry of entry.retries ?? []) {
      const operation = open.get(key("activity", retry.activity));
      if (operation) Object.assign(operation, { attempt: retry.attempt, detail: retry.failure?.message ?? null, due: retry.at / 1000 });
    }
    if (entry.ended) marks.push({ at: entry.ended.time / 1000, word: entry.ended.status.replaceAll("_", " "), detail: entry.ended.failure?.message ?? null, from: "host", isEnd: true });
  }
  return { run, runs, operations, marks };
}
