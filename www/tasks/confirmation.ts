import { part } from '../shared/dom.ts';

/** Asks the user to confirm a deletion. Resolves to false if the user keeps it. */
export function confirmDeletion(question: string, consequence: string): Promise<boolean> {
  const dialog = part(document, 'confirmation', HTMLDialogElement);
  part(dialog, 'confirmation-question', HTMLElement).textContent = question;
  part(dialog, 'confirmation-consequence', HTMLElement).textContent = consequence;
  dialog.returnValue = '';
  dialog.showModal();
  return new Promise((resolve) => {
    dialog.addEventListener('close', () => resolve(dialog.returnValue === 'delete'), { once: true });
  });
}
