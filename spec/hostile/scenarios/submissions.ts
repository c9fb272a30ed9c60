/** A submission whose text is `bytes` long in UTF-8, of a character of one byte or of several. */
export function submissionOf(bytes: number, filler = 'x'): Buffer {
  const frame = Buffer.byteLength('{"action":"x","data":{"text":""}}');
  return Buffer.from(`{"action":"x","data":{"text":"${filler.repeat((bytes - frame) / Buffer.byteLength(filler))}"}}`);
}

/** A task that cannot succeed. */
export const failing = '{"action":"sum","data":{"numbers":["1"]}}';
