import { useRef } from 'preact/hooks';
import type { QueueStatus } from '../client/queue-api.ts';
import { history, link, linkState, situation, status } from './board.ts';
import { say } from './bulk-changes.tsx';
import { ask } from './dialogs.tsx';
import { Button, Live, SmallButton } from './parts.tsx';
import type { Histories } from './queue-history.ts';
import { client } from './service.ts';
import { lengthOf, type Problem, usageOf } from './situation.ts';
import { formatAge, formatChange, formatCount, formatMinute, formatRate, formatSpan } from './texts.ts';

/** What is wrong in a sentence, and the figures of the queue. They are marked as outdated while the service is not reached. */
export function HealthStrip() {
  const { severity, sentence, since, problems } = situation.value;
  const figures = status.value === undefined ? undefined : figuresOf(status.value, history.value);
  return (
    <section class="stack tight" data-part="health" aria-label="State of the queue" data-condition={severity}>
      <div class="situation row" data-part="situation" data-kinds={problems.map(({ kind }) => kind).join(' ')}>
        <p class="grow">
          <strong class="toned" data-part="sentence">
            {sentence || 'Connecting to the service.'}
          </strong>{' '}
          {problems.find(({ advice }) => advice !== undefined)?.advice}
        </p>
        {since !== undefined && (
          <p class="quiet" data-part="since">
            for <Live text={(nowMs) => formatAge(nowMs - since)} />
          </p>
        )}
        {status.value?.paused && (
          <SmallButton onClick={() => void change(client.queue.resume)}>Resume the queue</SmallButton>
        )}
      </div>
      <dl class="health-figures">
        {Object.entries(TERMS).map(([name, term]) => {
          const [text, more = ''] = figures?.[name as keyof typeof TERMS] ?? ['–'];
          return (
            <div key={name} data-figure={name}>
              <dt class="small">{term}</dt>
              <dd>
                <span data-part={`health-${name}`}>{text}</span>
                {name === 'backlog' && (
                  <meter
                    min={0}
                    max={1}
                    high={0.9}
                    value={status.value === undefined ? 0 : usageOf(status.value)}
                    aria-label="Used part of the queue’s limits"
                  />
                )}
                <small class="quiet" data-part={`more-${name}`}>
                  {more}
                </small>
              </dd>
            </div>
          );
        })}
      </dl>
      <Announcement problems={problems} />
    </section>
  );
}

/** Announces only new kinds of problems to screen readers, because their texts contain changing numbers. */
function Announcement({ problems }: { problems: readonly Problem[] }) {
  const announced = useRef({ kinds: [] as readonly string[], text: '' });
  const kinds = problems.map(({ kind }) => kind);
  const added = problems.filter(({ kind }) => !announced.current.kinds.includes(kind));
  if (added.length > 0 || problems.length === 0) announced.current.text = added.map(({ text }) => text).join(' ');
  announced.current.kinds = kinds;
  return (
    <p class="visually-hidden" role="status" data-part="health-status">
      {announced.current.text}
    </p>
  );
}

export function PauseQueue() {
  if (status.value?.paused !== false || linkState.value.kind !== 'live') return null;
  const pause = async () => {
    const isConfirmed = await ask({
      question: 'Pause the queue?',
      consequence:
        'No node starts a task until the queue is resumed. Running tasks go on, and new ones are accepted and wait.',
      yes: 'Pause the queue',
      no: 'Keep it running',
    });
    if (isConfirmed) await change(client.queue.pause);
  };
  return <Button onClick={() => void pause()}>Pause queue</Button>;
}

async function change(request: () => Promise<void>): Promise<void> {
  try {
    await request();
    say('');
    link.now();
  } catch (error) {
    say(`Cannot change the queue: ${(error as Error).message}`, true);
  }
}

const TERMS = {
  backlog: 'Backlog',
  running: 'Running',
  retrying: 'Retrying',
  dead: 'Failed',
  accepted: 'Accepted',
  completed: 'Completed',
  oldest: 'Oldest',
  threads: 'Busy threads',
};

/** Returns the text of each figure, with a change or an addition below. Rates are means of ten seconds. */
function figuresOf(
  status: QueueStatus,
  { seconds }: Histories,
): Record<keyof typeof TERMS, [text: string, more?: string]> {
  const { running, in_flight, delayed, dead, evicted, completed, oldest_age_seconds: age, limits } = status;
  const { busy, total, overlap } = status.threads;
  const rate = (name: 'accepted' | 'completed') => {
    const known = seconds.newest(name, 10);
    return known === null ? '–' : `${formatRate(known)} / s`;
  };
  const failing = formatChange(seconds.newest('failed', 10) ?? 0);
  const start = seconds.starts.at(-1);
  const sinceStart = start === undefined ? '' : `${formatCount(completed)} since ${formatMinute(start * 1_000)}`;
  const atATime = `${formatCount(Math.min(total * overlap, limits.prefetch))} tasks at a time`;
  return {
    backlog: [formatCount(lengthOf(status)), formatChange(seconds.growth(10))],
    running: [formatCount(running), `${formatCount(in_flight - running)} next`],
    retrying: [formatCount(delayed)],
    dead: [formatCount(dead), evicted > 0 ? `${failing}, ${formatCount(evicted)} evicted` : failing],
    accepted: [rate('accepted')],
    completed: [rate('completed'), sinceStart],
    oldest: [age === null ? 'none' : formatSpan(age * 1_000)],
    threads: [`${busy} of ${total}`, overlap > 1 ? atATime : ''],
  };
}
