// The endpoint's public HTTP interface. A channel has one request at a time: a new request cancels the previous one.

const STORAGE_KEY = "agggen-key"; // of the API key in the storage of this tab

export class ApiError extends Error {
  /** `kind`: offline, key, busy, refused or fault; `problem` is the endpoint's problem+json. */
  constructor(kind, message, { problem = {}, after = null } = {}) {
    super(message);
    this.kind = kind;
    this.problem = problem;
    this.after = after; // seconds
  }

  get retryable() {
    return this.kind === "offline" || this.kind === "busy" || this.problem.retryable === true;
  }
}

/** A newer request on the same channel replaced this one. */
export class Superseded extends Error {}

export class Api {
  constructor(base) {
    this.base = base;
    this.channels = new Map();
    this.key = savedKey();
  }

  setKey(key) {
    this.key = key;
    try {
      if (key) sessionStorage.setItem(STORAGE_KEY, key);
      else sessionStorage.removeItem(STORAGE_KEY);
    } catch {
      // Without storage, the key lasts until the page is closed.
    }
  }

  cancel(channel) {
    this.channels.get(channel)?.abort();
  }

  /** Starts a turn (a series of calls) on a channel and cancels the previous one, whose calls raise Superseded. */
  turn(channel) {
    this.cancel(channel);
    const controller = new AbortController();
    this.channels.set(channel, controller);
    return {
      post: (path, body, model) => this.call(controller.signal, path, { body, model }),
      get: (path, model) => this.call(controller.signal, path, { model }),
    };
  }

  /** `model`: the fingerprint of the model to use, if two are served. */
  async call(signal, path, { body, model }) {
    const headers = { Accept: "application/json" };
    if (model) headers["X-Model"] = model;
    if (this.key) headers.Authorization = `Bearer ${this.key}`;
    if (body !== undefined) headers["Content-Type"] = "application/json";
    let response;
    let text;
    try {
      const options = { headers, signal, method: body === undefined ? "GET" : "POST", cache: "no-store", credentials: "omit" };
      if (body !== undefined) options.body = JSON.stringify(body);
      response = await fetch(new URL(path, this.base), options);
      text = await response.text();
    } catch {
      if (signal.aborted) throw new Superseded();
      throw new ApiError("offline", "The endpoint does not answer.");
    }
    if (signal.aborted) throw new Superseded();
    return parseResponse(response, text, Boolean(this.key));
  }

  /** The answer to the only record of a request. */
  static onlyAnswer(response) {
    return response.answers[0];
  }
}

/** The JSON value of a response; throws the ApiError of a failed one. */
function parseResponse(response, text, withKey) {
  let data = null;
  try {
    data = JSON.parse(text);
  } catch {
    // Not JSON, perhaps a proxy's error page: only its status is used.
  }
  if (response.ok && data) return data;
  const { status } = response;
  const problem = data?.detail ? data : {};
  const after = Number(response.headers.get("Retry-After")) || null;
  if (status === 401) throw new ApiError("key", withKey ? "The key is not valid." : "", { problem });
  if (status === 429) throw new ApiError("busy", "Too many requests are queued.", { problem, after });
  if ([502, 503, 504].includes(status) || (status === 500 && !problem.detail)) {
    throw new ApiError("offline", problem.detail ?? "The endpoint is restarting.", { problem, after });
  }
  if (status >= 500 || !data) throw new ApiError("fault", problem.detail ?? `The endpoint answered with status ${status}.`, { problem });
  throw new ApiError("refused", problem.detail ?? `The endpoint refused the request (status ${status}).`, { problem });
}

function savedKey() {
  try {
    return sessionStorage.getItem(STORAGE_KEY) ?? "";
  } catch {
    return "";
  }
}
