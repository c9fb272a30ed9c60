/** Returns a submission whose text is `bytes` long in UTF-8, filled with characters of one or several bytes. */
export function submissionOf(bytes: number, filler = 'x'): Buffer {
  const frame = Buffer.byteLength('{"action":"x","data":{"text":""}}');
  return Buffer.from(`{"action":"x","data":{"text":"${filler.repeat((bytes - frame) / Buffer.byteLength(filler))}"}}`);
}

/** A task that cannot succeed. */
export const failing = '{"action":"sum","data":{"numbers":["1"]}}';
