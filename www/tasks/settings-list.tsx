import type { ComponentChildren } from 'preact';
import { useEffect, useRef, useState } from 'preact/hooks';
import type { View } from './address.ts';
import { formatCount } from './amounts.ts';
import { linkState } from './board.ts';
import { confirmDeletion } from './confirmation.ts';
import { EditDialog } from './edit-dialog.tsx';
import { FieldError, type FormField, objectOf } from './fields.ts';
import { FindBar } from './find-bar.tsx';
import { holdsText } from './find-text.ts';
import { view } from './navigation.ts';
import { Button, SmallButton } from './parts.tsx';
import { isSignedOut } from './service.ts';
import { TITLES } from './tabs.tsx';
import { visibleText } from './visible-text.ts';

/** Ratio of the pause between two requests to the duration of a request, so that a long list is read less often. */
const PAUSE_RATIO = 20;

/** Runs an action of the user, and shows the report that it returns, or its error. */
export type Act = (action: () => Promise<ComponentChildren>) => Promise<void>;

export interface Settings<Item> {
  page: Exclude<View['page'], 'tasks'>;
  noun: string;
  /** Name of the field that names an item. */
  key: keyof Item & string;
  fields: readonly FormField[];
  /** What precedes the name of an item in a sentence. */
  subject: string;
  /** Consequence of a deletion. */
  deleted: string;
  /** Whether items of the handlers module can be edited here. */
  overridesModule: boolean;
  empty: string;
  /** Says what an item does, up to the ways to make one. */
  hint: string;
  note?: string;
  intervalMs: number;
  read(options: { signal: AbortSignal }): Promise<Item[]>;
  put(name: string, settings: object, isNew: boolean): Promise<unknown>;
  delete(name: string): Promise<void>;
  Cells(item: Item): ComponentChildren;
  Actions?(props: { item: Item; act: Act }): ComponentChildren;
}

/** List of settings that the user can make, edit and delete. It is read again while it is visible. */
export function SettingsList<Item extends { source: 'api' | 'module' }>({ of }: { of: Settings<Item> }) {
  const { page, noun, key, fields, subject, overridesModule, Cells, Actions } = of;
  const [items, setItems] = useState<readonly Item[]>();
  const [problem, setProblem] = useState('');
  const [report, setReport] = useState<ComponentChildren>('');
  const [isBusy, setBusy] = useState(false);
  const [edited, setEdited] = useState<Item | 'new'>();
  const [reads, setReads] = useState(0);
  const newButton = useRef<HTMLButtonElement>(null);

  useEffect(() => {
    const end = new AbortController();
    let timer: ReturnType<typeof setTimeout> | undefined;
    const poll = async () => {
      const startedAt = performance.now();
      try {
        setItems(await of.read({ signal: end.signal }));
        setProblem('');
      } catch (error) {
        if (end.signal.aborted || isSignedOut(error)) return;
        setProblem(`Not up to date: ${(error as Error).message}`);
      }
      timer = setTimeout(poll, Math.max(of.intervalMs, PAUSE_RATIO * (performance.now() - startedAt)));
    };
    if (!isBusy && !document.hidden) void poll();
    document.addEventListener('visibilitychange', readAgain, { signal: end.signal });
    return () => {
      end.abort();
      clearTimeout(timer);
    };
  }, [isBusy, reads, linkState.value.kind]);
  const readAgain = () => setReads((count) => count + 1);

  const act: Act = async (action) => {
    if (isBusy) return;
    setBusy(true);
    setReport(await action().catch((error: Error) => error.message));
    setBusy(false);
  };
  const remove = async (name: string) => {
    if (!(await confirmDeletion(`Delete ${subject} ${name}?`, of.deleted))) return '';
    await of.delete(name);
    newButton.current?.focus();
    return `Deleted ${subject} ${name}.`;
  };
  const save = async (texts: Readonly<Record<string, string>>) => {
    const { [key]: name, ...settings } = objectOf(fields, texts);
    if (name === undefined) throw new FieldError(key, 'Enter a name.');
    await of.put(String(name), settings, edited === 'new');
    setReport(`Saved ${subject} ${name}.`);
    readAgain();
  };

  const { q } = view.value;
  const all = items?.length ?? 0;
  const shown = items?.filter((item) => q === '' || holdsText([JSON.stringify(item)], q)) ?? [];
  const rows = shown.map((item) => {
    const name = String(item[key]);
    const isOfModule = item.source === 'module';
    return (
      <li key={name} class="setting" data-name={name}>
        <h3>
          <bdi>{visibleText(name)}</bdi>
        </h3>
        <Cells {...item} />
        {isOfModule && (
          <p class="setting-note quiet">
            From the handlers module{overridesModule ? ', until you edit it here.' : '. Edit it there.'}
          </p>
        )}
        <span class="setting-actions">
          {Actions && <Actions item={item} act={act} />}
          {(overridesModule || !isOfModule) && <ItemButton label="Edit" of={name} onClick={() => setEdited(item)} />}
          {!isOfModule && <ItemButton label="Delete" of={name} onClick={() => act(() => remove(name))} />}
        </span>
      </li>
    );
  });
  return (
    <section class="panel settings" data-part={page} aria-labelledby={`${page}-heading`}>
      <h2 class="visually-hidden" id={`${page}-heading`}>
        {TITLES[page]}
      </h2>
      <div class="list-head">
        <FindBar place={page} />
        <p class="list-count quiet">{shown.length < all && `${formatCount(shown.length)} of ${formatCount(all)}`}</p>
        <Button data-part="new" ref={newButton} onClick={() => setEdited('new')}>
          New {noun}
        </Button>
      </div>
      <p class="notice failed-notice" role="status">
        {problem}
      </p>
      <p class="failed-status" role="status" data-part="settings-status">
        {report}
      </p>
      <ul aria-busy={isBusy}>{rows}</ul>
      {items?.length === 0 && (
        <div class="empty">
          <p class="empty-title">{of.empty}</p>
          <p class="quiet">
            {of.hint} here, with <code>{`PUT /${page}/<${key}>`}</code>, or in the handlers module.
          </p>
        </div>
      )}
      {of.note && <p class="quiet">{of.note}</p>}
      {edited && (
        <EditDialog
          title={edited === 'new' ? `New ${noun}` : `Edit the ${noun}`}
          edited={edited === 'new' ? undefined : edited}
          {...{ fields, fixed: key, save, onClose: () => setEdited(undefined) }}
        />
      )}
    </section>
  );
}

/** Button of an item, with the name of the item in its accessible name. */
export function ItemButton({ label, of, onClick }: { label: string; of: string; onClick(): void }) {
  return (
    <SmallButton aria-label={`${label}: ${visibleText(of)}`} onClick={onClick}>
      {label}
    </SmallButton>
  );
}
