import { useSignal } from '@preact/signals';
import type { ComponentChildren } from 'preact';
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from 'preact/hooks';
import type { View } from './address.ts';
import { status } from './board.ts';
import { ask, Dialog } from './dialogs.tsx';
import { FieldError, type FormField, objectOf, type Problem, placeError, textOf } from './fields.ts';
import { FindBar } from './find-bar.tsx';
import { FormFields, focusField } from './form-fields.tsx';
import { view } from './navigation.ts';
import { Button, SmallButton, titleOf } from './parts.tsx';
import { repeated } from './service.ts';
import { formatCount, visibleText } from './texts.ts';

/** Ratio of the pause between two requests to the duration of a request, so that a long list is read less often. */
const PAUSE_RATIO = 20;

/** Runs an action of the user, and shows the report that it returns, or its error. */
export type Act = (action: () => Promise<ComponentChildren>) => Promise<void>;

export interface Settings<Item> {
  page: Exclude<View['page'], 'tasks'>;
  noun: string;
  key: keyof Item & string;
  fields: readonly FormField[];
  /** What precedes the name of an item in a sentence. */
  subject: string;
  deleted: string;
  /** Whether items of the handlers module can be edited here. */
  overridesModule: boolean;
  empty: string;
  /** Says what an item does, up to the ways to make one. */
  hint: string;
  intervalMs: number;
  read(): Promise<Item[]>;
  put(name: string, settings: object, isNew: boolean): Promise<unknown>;
  delete(name: string): Promise<void>;
  Cells(item: Item): ComponentChildren;
  Actions?(props: { item: Item; act: Act }): ComponentChildren;
}

/** List of settings that the user can make, edit and delete. It is read again while it is visible. */
export function SettingsList<Item extends { source: 'api' | 'module' }>({ of }: { of: Settings<Item> }) {
  const { page, noun, key, subject, overridesModule, Cells, Actions } = of;
  const [report, setReport] = useState<ComponentChildren>('');
  const isBusy = useSignal(false);
  const [edited, setEdited] = useState<Item | 'new'>();
  const newButton = useRef<HTMLButtonElement>(null);
  const { answer, problem, read, poll } = useMemo(
    () => repeated<readonly Item[] | undefined>(of.intervalMs, () => of.read(), undefined, PAUSE_RATIO),
    [],
  );
  const items = answer.value;
  useEffect(() => status.subscribe(() => isBusy.peek() || poll()), []);
  const act: Act = async (action) => {
    if (isBusy.peek()) return;
    isBusy.value = true;
    setReport(await action().catch((error: Error) => error.message));
    isBusy.value = false;
    await read();
  };
  const remove = async (name: string) => {
    const question = `Delete ${subject} ${name}?`;
    if (!(await ask({ question, consequence: of.deleted, yes: 'Delete' }))) return '';
    await of.delete(name);
    newButton.current?.focus();
    return `Deleted ${subject} ${name}.`;
  };
  const { q } = view.value;
  const all = items?.length ?? 0;
  const shown = items?.filter((item) => JSON.stringify(item).toLowerCase().includes(q.trim().toLowerCase())) ?? [];
  const rows = shown.map((item) => {
    const name = String(item[key]);
    const isOfModule = item.source === 'module';
    return (
      <li key={name} class="setting grid" data-name={name}>
        <h3>
          <bdi class="clamp">{visibleText(name)}</bdi>
        </h3>
        <Cells {...item} />
        {isOfModule && (
          <p class="wide quiet small">
            From the handlers module{overridesModule ? ', until you edit it here.' : '. Edit it there.'}
          </p>
        )}
        <span class="row">
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
        {titleOf(page)}
      </h2>
      <div class="list-head screen-only row pad">
        <FindBar />
        <p class="list-count keep quiet small">
          {shown.length < all && `${formatCount(shown.length)} of ${formatCount(all)}`}
        </p>
        <Button data-part="new" ref={newButton} onClick={() => setEdited('new')}>
          New {noun}
        </Button>
      </div>
      <output class="notice">{problem}</output>
      <p class="failed-status pad" role="status" data-part="settings-status">
        {report}
      </p>
      <ul aria-busy={isBusy.value}>{rows}</ul>
      {items?.length === 0 && (
        <div class="empty stack pad">
          <p class="empty-title strong">{of.empty}</p>
          <p class="quiet">
            {of.hint} here, with <code>{`PUT /${page}/<${key}>`}</code>, or in the handlers module.
          </p>
        </div>
      )}
      {edited && (
        <EditDialog
          of={of}
          edited={edited === 'new' ? undefined : edited}
          onSaved={(name) => {
            setReport(`Saved ${subject} ${name}.`);
            void read();
          }}
          onClose={() => setEdited(undefined)}
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

interface EditDialogProps<Item> {
  of: Settings<Item>;
  edited: Item | undefined;
  onSaved(name: string): void;
  onClose(): void;
}

function EditDialog<Item extends object>({ of, edited, onSaved, onClose }: EditDialogProps<Item>) {
  const { noun, key, fields } = of;
  const [texts, setTexts] = useState<Readonly<Record<string, string>>>(() =>
    Object.fromEntries(fields.map((each) => [each.name, edited ? textOf(each, edited) : (each.initial ?? '')])),
  );
  const [problem, setProblem] = useState<Problem>();
  const [isSaving, setSaving] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useLayoutEffect(() => form.current?.querySelector<HTMLElement>(':is(input:not([readonly]), select)')?.focus(), []);
  useLayoutEffect(() => {
    if (problem) focusField(form.current, problem);
  }, [problem]);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isSaving) return;
    setSaving(true);
    setProblem(undefined);
    try {
      const { [key]: name, ...settings } = objectOf(fields, texts);
      if (name === undefined) throw new FieldError(key, 'Enter a name.');
      await of.put(String(name), settings, edited === undefined);
      onSaved(String(name));
      if (form.current !== null) onClose();
    } catch (error) {
      setProblem(placeError(error as Error, fields));
    }
    setSaving(false);
  };
  const onText = (name: string, text: string) => {
    setProblem(undefined);
    setTexts((all) => ({ ...all, [name]: text }));
  };
  return (
    <Dialog part="edit-dialog" class="edit-dialog panel stack" heading="edit-heading" isForm onClose={onClose}>
      <h2 id="edit-heading">{edited ? `Edit the ${noun}` : `New ${noun}`}</h2>
      <form ref={form} noValidate onSubmit={submit}>
        <div class="grid">
          <FormFields {...{ fields, texts, problem, onText }} prefix="edit-" fixed={edited && key} />
        </div>
        <p class="field-error" role="alert" data-part="edit-error">
          {problem?.field === undefined && problem?.message}
        </p>
        <div class="row end">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" class="button button-primary" aria-disabled={isSaving}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
