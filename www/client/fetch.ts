/** The part of a `Response` that the client uses. */
export interface Answer extends Pick<Response, 'ok' | 'status' | 'body' | 'text' | 'json'> {
  headers: Pick<Headers, 'get'>;
}

/** The part of `fetch` that the client uses. */
export type Fetch = (
  url: URL,
  init: { method: string; headers: Record<string, string>; body: string | null; signal: AbortSignal },
) => Promise<Answer>;
