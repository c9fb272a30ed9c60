import { signal } from '@preact/signals';

export interface Question {
  question: string;
  consequence: string;
  /** Labels of the buttons. */
  yes: string;
  no: string;
  answer(isConfirmed: boolean): void;
}

export const openQuestion = signal<Question>();

/** Asks the user to confirm something. Resolves to false if the user declines. */
export function ask(question: Omit<Question, 'answer'>): Promise<boolean> {
  return new Promise((resolve) => {
    openQuestion.value = {
      ...question,
      answer(isConfirmed) {
        openQuestion.value = undefined;
        resolve(isConfirmed);
      },
    };
  });
}

/** Asks the user to confirm a deletion. Resolves to false if the user keeps it. */
export function confirmDeletion(question: string, consequence: string): Promise<boolean> {
  return ask({ question, consequence, yes: 'Delete', no: 'Keep' });
}
