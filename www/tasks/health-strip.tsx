import { computed, useSignal } from '@preact/signals';
import { useRef } from 'preact/hooks';
import { formatCount } from './amounts.ts';
import { health, link, linkState } from './board.ts';
import { ask } from './confirmation.ts';
import { type Health, type Notice, noticesOf } from './health.ts';
import { Button, SmallButton } from './parts.tsx';
import { queue } from './service.ts';

/** Problems of the queue. None are known while the service is not reached. */
export const notices = computed(() =>
  health.value !== undefined && linkState.value.kind === 'live' ? noticesOf(health.value, location.origin) : [],
);

/** Figures of the queue, and notices of its problems. They are marked as outdated while the service is not reached. */
export function HealthStrip() {
  const { value } = health;
  const isCurrent = linkState.value.kind === 'live';
  return (
    <section
      class="health"
      data-part="health"
      aria-label="State of the queue"
      data-outdated={isCurrent ? undefined : ''}
      data-condition={notices.value.length > 0 ? 'warning' : 'normal'}
    >
      <dl class="health-figures">
        {figuresOf(value).map(({ name, term, text }) => (
          <div key={name} data-figure={name}>
            <dt>{term}</dt>
            <dd>
              <span data-part={`health-${name}`}>{text}</span>
              {name === 'waiting' && (
                <meter
                  min={0}
                  max={1}
                  high={0.9}
                  value={value?.used ?? 0}
                  aria-label="Used part of the queue’s limits"
                />
              )}
            </dd>
          </div>
        ))}
      </dl>
      <Announcement notices={notices.value} />
      {notices.value.map((notice) => (
        <HealthNotice key={notice.kind} notice={notice} />
      ))}
    </section>
  );
}

/** Announces only new kinds of notices to screen readers, because the texts of notices contain changing numbers. */
function Announcement({ notices }: { notices: readonly Notice[] }) {
  const announced = useRef({ kinds: [] as readonly string[], text: '' });
  const kinds = notices.map(({ kind }) => kind);
  const added = notices.filter(({ kind }) => !announced.current.kinds.includes(kind));
  if (added.length > 0 || notices.length === 0) announced.current.text = added.map(({ problem }) => problem).join(' ');
  announced.current.kinds = kinds;
  return (
    <p class="visually-hidden" role="status" data-part="health-status">
      {announced.current.text}
    </p>
  );
}

function HealthNotice({ notice: { kind, problem, advice } }: { notice: Notice }) {
  const error = useSignal('');
  return (
    <div class="health-notice" data-kind={kind}>
      <p>
        <strong>{problem}</strong> <span>{advice}</span>
      </p>
      {kind === 'paused' && (
        <SmallButton onClick={() => void change(queue.resume, error)}>Resume the queue</SmallButton>
      )}
      <p class="field-error" role="alert">
        {error}
      </p>
    </div>
  );
}

/** Button that pauses the queue after a confirmation. */
export function PauseQueue() {
  const error = useSignal('');
  if (health.value?.paused !== false || linkState.value.kind !== 'live') return null;
  const pause = async () => {
    const isConfirmed = await ask({
      question: 'Pause the queue?',
      consequence:
        'No node starts a task until the queue is resumed. Running tasks go on, and new ones are accepted and wait.',
      yes: 'Pause the queue',
      no: 'Keep it running',
    });
    if (isConfirmed) await change(queue.pause, error);
  };
  return (
    <>
      <Button onClick={() => void pause()}>Pause queue</Button>
      <span class="field-error" role="alert">
        {error}
      </span>
    </>
  );
}

async function change(request: () => Promise<void>, error: { value: string }): Promise<void> {
  error.value = '';
  try {
    await request();
    link.now();
  } catch (cause) {
    error.value = (cause as Error).message;
  }
}

function figuresOf(health: Health | undefined): { name: string; term: string; text: string }[] {
  const figure = (name: string, term: string, text: (health: Health) => string) => ({
    ...{ name, term },
    text: health === undefined ? '–' : text(health),
  });
  return [
    figure('waiting', 'Waiting', ({ waiting }) => formatCount(waiting)),
    figure('running', 'Running', ({ running, next }) => withMore(running, next, 'next')),
    figure('retrying', 'Retrying', ({ retrying }) => formatCount(retrying)),
    figure('dead', 'Failed', ({ dead, evicted }) => withMore(dead, evicted, 'evicted')),
    figure('rate', 'Completed', ({ perSecond }) => (perSecond === undefined ? '–' : `${formatRate(perSecond)} / s`)),
    figure('oldest', 'Oldest', ({ oldestAgeSeconds: age }) => (age === null ? 'none' : formatDuration(age))),
    figure('threads', 'Busy threads', formatThreads),
  ];
}

function withMore(count: number, more: number, word: string): string {
  return more > 0 ? `${formatCount(count)}, ${formatCount(more)} ${word}` : formatCount(count);
}

function formatThreads({ threads: { busy, total, overlap }, limits }: Health): string {
  const atATime = Math.min(total * overlap, limits.prefetch);
  return `${busy} of ${total}${overlap > 1 ? `, ${formatCount(atATime)} tasks at a time` : ''}`;
}

function formatRate(perSecond: number): string {
  return perSecond === 0 || perSecond >= 10 ? formatCount(Math.round(perSecond)) : perSecond.toFixed(1);
}

function formatDuration(seconds: number): string {
  if (seconds < 60) return `${seconds < 10 ? seconds.toFixed(1) : Math.floor(seconds)} s`;
  if (seconds < 3600) return `${Math.floor(seconds / 60)} min`;
  return `${Math.floor(seconds / 3600)} h ${Math.floor((seconds % 3600) / 60)} min`;
}
