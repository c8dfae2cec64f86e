/** Client of Seriatim: gap-free numbers, ids in blocks, applications and durable workflows. */
export type * from "./answers.js";
export { Application, Partition } from "./application.js";
export { Blocks } from "./blocks.js";
export type { KeyOptions, Options } from "./calls.js";
export { Client } from "./client.js";
export {
  BusyError,
  ConflictError,
  CorruptError,
  ExhaustedError,
  FencedError,
  ForbiddenError,
  InDoubtError,
  InternalError,
  InvalidError,
  NotFoundError,
  SeriatimError,
  TooLargeError,
  UnauthorizedError,
  UnavailableError,
  WorkflowEndedError,
} from "./errors.js";
export { Follower } from "./follower.js";
export { BlockLease, type LeaseOptions } from "./lease.js";
export type { LogOptions } from "./log.js";
export type * from "./requests.js";
export type { Retry } from "./retry.js";
export { type NextOptions, Series } from "./series.js";
export { Workflow } from "./workflow.js";
export { type SubmitOptions, Workspace } from "./workspace.js";
