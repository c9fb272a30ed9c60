/* Applies the stored theme. Must be a classic script in the page's head, because modules run after the first paint. */
{
  const KEY = 'theme';

  const stored = (): string => {
    try {
      const theme = localStorage.getItem(KEY);
      return theme === 'light' || theme === 'dark' ? theme : '';
    } catch {
      return '';
    }
  };

  const apply = (theme: string): void => {
    // Overrides the system's colour scheme.
    document.documentElement.style.colorScheme = theme;
    for (const meta of document.querySelectorAll<HTMLMetaElement>('meta[name="theme-color"]')) {
      meta.dataset.scheme ??= meta.media.includes('dark') ? 'dark' : 'light';
      const { scheme } = meta.dataset;
      meta.media = theme === '' ? `(prefers-color-scheme: ${scheme})` : theme === scheme ? 'all' : 'not all';
    }
    const select = document.querySelector<HTMLSelectElement>('select[data-part="theme"]');
    if (select === null) return;
    select.value = theme;
    select.hidden = false;
  };

  apply(stored());
  for (const type of ['DOMContentLoaded', 'storage']) addEventListener(type, () => apply(stored()));
  document.addEventListener('change', ({ target }) => {
    if (!(target instanceof HTMLSelectElement) || target.dataset.part !== 'theme') return;
    apply(target.value);
    try {
      if (target.value === '') localStorage.removeItem(KEY);
      else localStorage.setItem(KEY, target.value);
    } catch {
      // The browser blocks storage, so the theme lasts only until the page is closed.
    }
  });
}
