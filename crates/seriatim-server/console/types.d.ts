// Types that no code declares: the API's answers, the content of a workflow's history, and the console's one global.
// For the type checker only: this file is not served.

interface Window {
  /** Set by theme.js. */
  seriatimTheme: { isDark(): boolean; toggle(): void };
}

/** Answers of the API. `.ci/check-openapi` compares these with the server's document. */
declare namespace Api {
  interface Application {
    name: string;
    partitions: number;
    kinds: string[];
    documents: Document[];
    commands: string[];
  }

  interface Document {
    name: string;
    kind: "C" | "O" | "W";
    singleton: boolean;
    parent: string | null;
    fields: Field[];
  }

  interface Field {
    name: string;
    type: "text" | "integer" | "decimal" | "bool" | "timestamp" | "reference" | "json";
    required: boolean;
    draw: string | null;
  }

  interface PartitionState {
    partition: number;
    status: "recovering" | "ready" | "stopped" | "fenced";
    next_offset: number;
    checkpoint: number;
    unflushed: number;
    owner: string;
    recovery?: Recovery;
    reason?: string;
  }

  interface NamedPartition extends PartitionState {
    app: string;
  }

  interface Recovery {
    from: number;
    at: number;
    tail: number;
  }

  interface Readiness {
    status: "ready" | "not ready";
    troubles?: string[];
  }

  interface Problem {
    title: string;
    status: number;
    code: string;
    detail: string;
    retryable: boolean;
    expected?: unknown;
    found?: unknown;
  }

  interface Workspace {
    id: number;
    kind: string;
    name?: string;
  }

  interface Workspaces {
    workspaces: Workspace[];
    next: number | null;
  }

  interface Sequence {
    name: string;
    next: number | null;
    first: number;
    last: number;
    remaining: number;
  }

  interface Forecast {
    per_day: number;
    runs_out: string | null;
  }

  interface Answer {
    partition: number;
    partition_offset: number;
    workspace_offset: number;
    ids: { [rawId: string]: number };
    numbers: { [rawId: string]: { [field: string]: number } };
    result: unknown;
    repeated: boolean;
  }

  interface Event {
    partition_offset: number;
    workspace_offset: number;
    at: string;
    command: string;
    args: unknown;
    changes: EventChange[];
    result?: unknown;
    idempotency_key?: string;
  }

  interface EventChange {
    create?: string;
    update?: number;
    id?: number;
    fields: { [name: string]: unknown };
  }

  interface Events {
    events: Event[];
    next: number;
  }

  interface Record {
    id: number;
    type: string | null;
    fields: { [name: string]: unknown };
    parent?: number;
    workspace_offset?: number;
  }

  interface Records {
    records: Record[];
    next: number | null;
  }

  interface Run {
    first: number;
    last: number;
  }

  interface Raise {
    at: string;
    from: number;
    to: number;
  }

  interface Broken {
    workspace_offset: number;
    problem: string;
  }

  interface Voided {
    number: number;
    reason: string;
    at: string;
  }

  interface Audit {
    first: number | null;
    last: number | null;
    count: number;
    gaps: Run[];
    duplicates: Run[];
    raises: Raise[];
    broken: Broken[];
    events: number;
    complete: boolean;
    digest: string;
  }

  interface SeriesAudit extends Audit {
    voids: Voided[];
  }

  interface Series {
    series: string;
    first: number;
    format: string;
    next: number | null;
    remaining: number;
    voids: number;
    raises: number;
  }

  interface SeriesList {
    series: Series[];
    next: string | null;
  }

  interface Taken {
    number: number;
    count: number;
    text: string;
    repeated: boolean;
  }

  interface Issued {
    number: number;
    first: number;
    count: number;
    at: string;
    workspace_offset: number;
    partition_offset: number;
    idempotency_key: string | null;
    note: string | null;
    void: Voided | null;
  }

  interface BlockSequence {
    name: string;
    first: number;
    block_size: number;
    next: number;
    reserved: number;
    wasted: number;
  }

  interface BlockSequences {
    blocks: BlockSequence[];
    next: string | null;
  }

  interface Allocated {
    first: number;
    count: number;
  }

  interface WorkflowSummary {
    id: string;
    run: number;
    type: string;
    status: string;
    started: string;
    ended: string | null;
  }

  interface Workflows {
    workflows: WorkflowSummary[];
    next: number | null;
  }

  interface WorkflowRuns {
    runs: WorkflowSummary[];
  }

  interface Workflow extends WorkflowSummary {
    input: unknown;
    memo?: { [name: string]: unknown };
    result: unknown;
    failure: History.Failure | null;
    stuck: string | null;
    pending: PendingOperation[];
    blocked: BlockedBranch[];
    warnings?: string[];
  }

  interface PendingOperation {
    kind: string;
    number: number;
    name: string;
    due?: string;
    attempt?: number;
    last_failure?: History.Failure;
    target?: string;
  }

  interface BlockedBranch {
    branch: string;
    waits: History.Wait[];
  }

  interface WorkflowHistory extends WorkflowSummary {
    entries: HistoryEntry[];
    steps: unknown[];
    next: number | null;
  }

  interface HistoryEntry {
    what: string;
    kind?: string;
    number?: number;
    path?: string;
    name: string;
    at: string;
    details: History.Details;
    answered_at?: string;
    answer?: History.Details;
  }

  interface StartedWorkflow {
    id: string;
  }

  interface WorkflowAnswer {
    result: unknown;
  }
}

/** Values from the code of workflows. The API's document describes them only as objects. */
declare namespace History {
  interface Payload {
    encoding?: string;
    text?: string;
  }

  interface Failure {
    message: string;
    cause?: Failure;
  }

  interface Resolution {
    outcome: string;
    cause?: string;
    failure?: Failure;
    result?: Payload | null;
  }

  /** A command, or a job of an activation. */
  interface Details {
    seq?: number;
    attempt?: number;
    duration?: { secs: number; nanos: number };
    options?: { workflow_id?: string };
    target?: { workflow_id?: string };
    parent?: { workflow_id: string } | null;
    input?: Payload[];
    result?: Payload | null;
    resolution?: Resolution;
    failure?: Failure | null;
    reason?: string;
  }

  /** What a branch of the code waits for. */
  type Wait =
    | { for: "response"; kind: string; seq: number }
    | { for: "child_start"; seq: number }
    | { for: "signal"; name: string }
    | { for: "branch"; branch: string }
    | { for: "branches" | "slot" | "condition" | "mutex" | "semaphore" | "channel" | "cancellation" };
}
