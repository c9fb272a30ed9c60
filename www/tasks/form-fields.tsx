import type { FormField, Problem } from './fields.ts';

interface FormFieldsProps {
  fields: readonly FormField[];
  texts: Readonly<Record<string, unknown>>;
  problem: Problem | undefined;
  /** Start of the ids of the controls. */
  prefix?: string;
  /** Name of the field that cannot be changed. */
  fixed?: string | undefined;
  onText(name: string, text: string): void;
}

export function FormFields({ fields, texts, problem, prefix = '', fixed, onText }: FormFieldsProps) {
  return fields.map(({ name, label, hint, choices, rows, class: className }) => {
    const id = prefix + name;
    const Control = (choices ? 'select' : rows ? 'textarea' : 'input') as 'input';
    const error = problem?.field === name && problem.message;
    return (
      <div class="field" key={name}>
        <label for={id}>{label}</label>
        <Control
          {...{ id, name, rows, class: className, value: String(texts[name] ?? ''), readOnly: name === fixed }}
          {...{ autocomplete: 'off', autocapitalize: 'none', spellcheck: false }}
          aria-invalid={error ? true : undefined}
          aria-describedby={`${id}-error ${id}-hint`}
          onInput={({ currentTarget }) => onText(name, currentTarget.value)}
        >
          {choices?.map(([value, name]) => (
            <option key={value} value={value}>
              {name}
            </option>
          ))}
        </Control>
        <p class="field-error" id={`${id}-error`} role="alert">
          {error}
        </p>
        <p class="quiet small" id={`${id}-hint`}>
          {hint}
        </p>
      </div>
    );
  });
}

export function focusField(form: HTMLFormElement | null, { field }: Problem) {
  const control = form?.querySelector<HTMLTextAreaElement>(`[name="${field}"]`);
  control?.focus();
  return control;
}
