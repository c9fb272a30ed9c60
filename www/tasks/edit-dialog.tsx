import { useEffect, useRef, useState } from 'preact/hooks';
import { Dialog } from './dialogs.tsx';
import { type FormField, type Problem, placeError, textOf } from './fields.ts';
import { FormFields, focusField } from './form-fields.tsx';
import { Button } from './parts.tsx';

interface EditDialogProps {
  title: string;
  fields: readonly FormField[];
  /** Edited object, or undefined for a new one. */
  edited: object | undefined;
  /** Name of the field that only a new object may change. */
  fixed: string;
  /** @throws {FieldError | ServiceError | UnreachableError} */
  save(texts: Readonly<Record<string, string>>): Promise<void>;
  onClose(): void;
}

/** Dialog that edits the fields of an object, and shows the error of a field below it. */
export function EditDialog({ title, fields, edited, fixed, save, onClose }: EditDialogProps) {
  const [texts, setTexts] = useState(() =>
    Object.fromEntries(fields.map((each) => [each.name, edited ? textOf(each, edited) : (each.initial ?? '')])),
  );
  const [problem, setProblem] = useState<Problem>();
  const [isSaving, setSaving] = useState(false);
  const form = useRef<HTMLFormElement>(null);
  useEffect(() => form.current?.querySelector<HTMLElement>(':is(input:not([readonly]), select)')?.focus(), []);
  useEffect(() => {
    if (problem) focusField(form.current, problem);
  }, [problem]);

  const submit = async (event: Event) => {
    event.preventDefault();
    if (isSaving) return;
    setSaving(true);
    setProblem(undefined);
    try {
      await save(texts);
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
  const heading = <h2 id="edit-heading">{title}</h2>;
  return (
    <Dialog
      part="edit-dialog"
      class="edit-dialog panel"
      heading="edit-heading"
      title={heading}
      isForm
      onClose={onClose}
    >
      <form ref={form} noValidate onSubmit={submit}>
        <div class="edit-fields">
          <FormFields {...{ fields, texts, problem, onText }} prefix="edit-" fixed={edited && fixed} />
        </div>
        <p class="field-error" role="alert" data-part="edit-error">
          {problem?.field === undefined && problem?.message}
        </p>
        <div class="purge-buttons">
          <Button onClick={onClose}>Cancel</Button>
          <Button type="submit" class="button button-primary" aria-disabled={isSaving}>
            Save
          </Button>
        </div>
      </form>
    </Dialog>
  );
}
