import { catalogues, type Locale, localeFor } from "../i18n";

export type Language = Locale | "system";
export type Theme = "system" | "light" | "dark";

const LANGUAGE = "language";
const THEME = "theme";

/** A kept choice; where nothing can be kept, the choice lasts as long as the window. */
function kept(key: string): string | null {
  try {
    return localStorage.getItem(key);
  } catch {
    return null;
  }
}

function keep(key: string, value: string): void {
  try {
    localStorage.setItem(key, value);
  } catch {
    // The choice still holds for this window.
  }
}

/** What a person chose about this window, kept in the web view. */
export class Preferences {
  language = $state<Language>("system");
  theme = $state<Theme>("system");

  constructor() {
    const language = kept(LANGUAGE);
    if (language !== null && language in catalogues) this.language = language as Locale;
    const theme = kept(THEME);
    if (theme === "light" || theme === "dark") this.theme = theme;
  }

  get locale(): Locale {
    return this.language === "system" ? localeFor(navigator.languages) : this.language;
  }

  setLanguage(language: Language): void {
    this.language = language;
    keep(LANGUAGE, language);
  }

  setTheme(theme: Theme): void {
    this.theme = theme;
    keep(THEME, theme);
  }

  /** Tells the page which language it is in and which colours to take. */
  apply(root: HTMLElement): void {
    root.lang = this.locale;
    if (this.theme === "system") delete root.dataset.theme;
    else root.dataset.theme = this.theme;
  }
}
