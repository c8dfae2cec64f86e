/** A message of a stream of server-sent events. */
export interface Message {
  /** Its kind; empty: the default kind. */
  event: string;
  id: string;
  data: string;
}

/** Reads messages from text in pieces of any size. */
export class MessageParser {
  #rest = "";
  #event = "";
  #id = "";
  #data: string[] = [];

  /** Adds a piece, and returns the messages that are complete with it. */
  push(piece: string): Message[] {
    const lines = (this.#rest + piece).split("\n");
    this.#rest = lines.pop() ?? "";
    return lines.flatMap((line) => this.#take(line.endsWith("\r") ? line.slice(0, -1) : line));
  }

  #take(line: string): Message[] {
    if (line === "") {
      const message = { event: this.#event, id: this.#id, data: this.#data.join("\n") };
      const complete = this.#event !== "" || this.#data.length > 0;
      [this.#event, this.#id, this.#data] = ["", "", []];
      return complete ? [message] : [];
    }
    const colon = line.indexOf(":");
    const [field, rest] = colon < 0 ? [line, ""] : [line.slice(0, colon), line.slice(colon + 1)];
    const value = rest.startsWith(" ") ? rest.slice(1) : rest;
    if (field === "event") this.#event = value;
    else if (field === "id") this.#id = value;
    else if (field === "data") this.#data.push(value);
    // A comment is a sign of life of the server; other fields are for browsers.
    return [];
  }
}
