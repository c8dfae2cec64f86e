/** What the server answers, with the names of the HTTP API. Fields that a newer server adds are there as well. */

/** Numbers of a series that were taken. */
export interface Taken {
  series: string;
  /** The first of them. */
  number: number;
  /** How many consecutive numbers. */
  count: number;
  /** The first of them, in the format of the series. */
  text: string;
  /** Whether they were taken earlier, under the same key. */
  repeated: boolean;
}

/** The state of a series. */
export interface SeriesState {
  series: string;
  first: number;
  format: string;
  /** The number that will be taken next; null if no number is left. */
  next: number | null;
  remaining: number;
  voids: number;
  raises: number;
}

/** A number that was marked as void. */
export interface Voided {
  number: number;
  reason: string;
  at: string;
}

/** The answer to marking a number as void. */
export interface VoidAnswer {
  series: string;
  number: number;
  void: boolean;
  reason: string;
}

/** How a number of a series was taken. */
export interface Issued {
  series: string;
  number: number;
  /** The first of those that were taken together. */
  first: number;
  /** How many were taken together. */
  count: number;
  at: string;
  workspace_offset: number;
  partition_offset: number;
  idempotency_key: string | null;
  note: string | null;
  void: Voided | null;
}

/** Consecutive numbers. */
export interface Run {
  first: number;
  last: number;
}

/** A gap that an event explains. */
export interface Raise {
  workspace_offset: number;
  at: string;
  /** The number that would have been next. */
  from: number;
  /** The number that was next instead. */
  to: number;
}

/** An event that breaks the chain. */
export interface Broken {
  workspace_offset: number;
  problem: string;
}

/** Whether a sequence is complete. */
export interface Audit {
  first: number | null;
  last: number | null;
  count: number;
  /** Numbers that were not drawn, and no event explains why. */
  gaps: Run[];
  duplicates: Run[];
  raises: Raise[];
  broken: Broken[];
  events: number;
  /** Whether there is no gap, no duplicate and no broken event. */
  complete: boolean;
  digest: string;
}

/** Whether a series is complete. */
export interface SeriesAudit extends Audit {
  /** Numbers that were marked as void: at most the first thousand. */
  voids: Voided[];
}

/** Ids of a block sequence that were allocated. */
export interface Allocated {
  first: number;
  count: number;
}

/** The state of a block sequence. */
export interface BlocksState {
  name: string;
  first: number;
  block_size: number;
  next: number;
  reserved: number;
  wasted: number;
}

/** What a command did. */
export interface Answer {
  partition: number;
  partition_offset: number;
  workspace_offset: number;
  /** The real id of each raw id. */
  ids: Record<string, number>;
  /** Per raw id, the fields that were drawn from a sequence. */
  numbers: Record<string, Record<string, number>>;
  result: unknown;
  /** Whether the command was done earlier, under the same key. */
  repeated: boolean;
}

/** A record that an event created or updated. */
export interface EventChange {
  create?: string;
  update?: number;
  id?: number;
  parent?: number;
  fields: Record<string, unknown>;
}

/** An event of a log. */
export interface Event {
  partition: number;
  partition_offset: number;
  workspace: number;
  workspace_offset: number;
  at: string;
  command: string;
  args: unknown;
  changes: EventChange[];
  unlogged_args?: string;
  result?: unknown;
  idempotency_key?: string;
}

/** A record of a workspace. */
export interface WorkspaceRecord {
  id: number;
  /** Its document; null if the definition does not contain it. */
  type: string | null;
  fields: Record<string, unknown>;
  parent?: number;
  workspace_offset?: number;
}

/** A row of a view. */
export interface Row {
  key: (string | number)[];
  row: unknown;
}

/** A sequence of a workspace. */
export interface SequenceState {
  name: string;
  next: number | null;
  first: number;
  last: number;
  remaining: number;
}

/** Id, kind and name of a workspace. */
export interface WorkspaceDescriptor {
  id: number;
  kind: string;
  name?: string;
}

/** A run that was started. */
export interface StartedWorkflow {
  id: string;
  run_id: string;
  /** Whether this request started the run. If not, the run was open and received the request's signal. */
  started: boolean;
  repeated: boolean;
}

/** A signal, a cancellation or another request that a run received. */
export interface Delivery {
  id: string;
  run_id: string;
  repeated: boolean;
}

/** A summary of a run. */
export interface WorkflowSummary {
  id: string;
  run_id: string;
  run: number;
  type: string;
  /** `running`, `completed`, `failed`, `cancelled`, `terminated`, `timed_out` or `continued_as_new`. */
  status: string;
  started: string;
  ended: string | null;
}

/** An operation of a run that has no answer yet. */
export interface PendingOperation {
  kind: string;
  number: number;
  path: string;
  name: string;
  since: string;
  due?: string;
  attempt?: number;
  last_failure?: unknown;
  target?: string;
}

/** A branch of a run's code that waits. */
export interface BlockedBranch {
  branch: string;
  waits: unknown[];
}

/** The state of a workflow's newest run. */
export interface WorkflowState extends WorkflowSummary {
  input: unknown;
  memo: Record<string, unknown>;
  result: unknown;
  failure: unknown;
  /** Why its code cannot continue. */
  stuck: string | null;
  pending: PendingOperation[];
  blocked: BlockedBranch[];
  warnings: string[];
}

/** A command of a run with its answer, or a job that the run received. */
export interface HistoryEntry {
  what: string;
  kind?: string;
  number?: number;
  path?: string;
  name: string;
  event: number;
  at: string;
  details: unknown;
  answered_at?: string;
  answer_event?: number;
  answer?: unknown;
}

/** A page of a run's history. */
export interface WorkflowHistory extends WorkflowSummary {
  entries: HistoryEntry[];
  /** What `seriatim replay` reads. */
  steps: unknown[];
  /** The `after` of the next page; null on the last page. */
  next: number | null;
}
