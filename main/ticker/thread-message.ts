import { isObject } from '../../workers/json-object.ts';
import { SUBSCRIBERS, type TickerToMain } from '../../workers/messages.ts';

/** Validates a message of the ticker thread, because a user's price source module can post any value. */
export function isThreadMessage(message: unknown): message is TickerToMain {
  if (!isObject(message)) return false;
  if ('topic' in message) return message.topic === 'ready' || isSourceMessage(message);
  return isFrame(message.message) && (isTick(message) || isArrayOf('string', message.to));
}

function isSourceMessage({ topic, problem }: Record<string, unknown>): boolean {
  return topic === 'source' && (problem === undefined || typeof problem === 'string');
}

function isFrame(value: unknown): boolean {
  return isObject(value) && value.topic === 'ws.send' && value.type === 'text' && typeof value.data === 'string';
}

function isTick({ to, due, prices }: Record<string, unknown>): boolean {
  return to === SUBSCRIBERS && Number.isFinite(due) && (prices === undefined || isArrayOf('number', prices));
}

function isArrayOf(type: 'string' | 'number', value: unknown): boolean {
  return Array.isArray(value) && value.every((item) => typeof item === type);
}
